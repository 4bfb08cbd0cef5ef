#!/usr/bin/env bash
# Versions: safetensors==0.8.0, torch==2.13.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: Tensors from safetensors.torch.load_file stay tied to the file on Linux: numbers written into
# it afterwards, in place, appear in the tensors. A tensor's own in-place changes do not reach the file,
# and a page that the tensor has written no longer follows. safetensors.numpy.load_file of the same file
# makes a copy and does not follow.
#
# Output seen:
#     loaded tensor, an element it had changed itself: 5.0
#     loaded tensor, last element, after the file was rewritten: 7.0
#     loaded array, last element: 1.0
#     the file, first element: 7.0
#
# Why it matters: A job that refreshes weights in place (on a shared disk, say) changes the model of every
# process that loaded them earlier, in part and without a word. Clone after loading, or replace files by
# renaming.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="safetensors==0.8.0 torch==2.13.0 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import struct
import sys

import numpy as np
import torch
from safetensors.numpy import load_file as load_arrays
from safetensors.torch import load_file, save_file

count = 1024 * 1024
save_file({'w': torch.ones(count)}, 'weights.safetensors')
tensor = load_file('weights.safetensors')['w']
array = load_arrays('weights.safetensors')['w']
tensor[0] = 5
with open('weights.safetensors', 'r+b') as file:
    header = struct.unpack('<Q', file.read(8))[0]
    file.seek(8 + header)
    file.write(np.full(count, 7, dtype=np.float32).tobytes())
found = [tensor[0].item(), tensor[-1].item(), float(array[-1]), load_file('weights.safetensors')['w'][0].item()]
print('loaded tensor, an element it had changed itself:', found[0])
print('loaded tensor, last element, after the file was rewritten:', found[1])
print('loaded array, last element:', found[2])
print('the file, first element:', found[3])
if found != [5.0, 7.0, 1.0, 7.0]:
    sys.exit('Changed: what follows the file is no longer as the comments say.')
CODE
