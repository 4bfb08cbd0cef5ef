#!/usr/bin/env bash
# Versions: safetensors==0.8.0, numpy==2.2.6, ml_dtypes==0.6.0 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: Whether safetensors.numpy.load_file can read a file of bfloat16 depends on what else the
# process has imported. With ml_dtypes installed but not imported, NumPy raises TypeError: data type
# 'bfloat16' not understood. After `import ml_dtypes` anywhere in the process, the same call on the same
# file returns an array of bfloat16.
#
# Output seen:
#     before the import: data type 'bfloat16' not understood
#     after the import: bfloat16 [1 2]
#
# Why it matters: A loader that works in a training process (JAX and TensorFlow import ml_dtypes) fails in
# the small tool that only counts parameters, with a message that names neither the file nor the package
# that is missing.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="safetensors==0.8.0 numpy==2.2.6 ml_dtypes==0.6.0"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import json
import struct
import sys

from safetensors.numpy import load_file

# The format by hand: the length of the header, the header, then 1.0 and 2.0 in bfloat16.
header = json.dumps({'w': {'dtype': 'BF16', 'shape': [2], 'data_offsets': [0, 4]}}).encode()
with open('weights.safetensors', 'wb') as file:
    file.write(struct.pack('<Q', len(header)))
    file.write(header)
    file.write(bytes([0x80, 0x3F, 0x00, 0x40]))

try:
    load_file('weights.safetensors')
    before = 'loaded'
except TypeError as error:
    before = str(error)
print('before the import:', before)

import ml_dtypes

after = load_file('weights.safetensors')['w']
print('after the import:', after.dtype, after)
if "data type 'bfloat16' not understood" not in before or after.dtype != ml_dtypes.bfloat16:
    sys.exit('Changed: loading no longer depends on the import of ml_dtypes.')
CODE
