#!/usr/bin/env bash
# Versions: accelerate==1.15.0, torch==2.13.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: find_executable_batch_size of Accelerate does not halve the batch size after each failure for
# want of memory: it multiplies by 0.9 and rounds down. From 128 to a size that fits at 20 it tries
# seventeen sizes, most of them odd and none of them 64, 32 or 16.
#
# Output seen:
#     found 19
#     tried [128, 115, 103, 92, 82, 73, 65, 58, 52, 46, 41, 36, 32, 28, 25, 22, 19]
#
# Why it matters: Each try builds model and optimizer again, so a search from far above takes many starts.
# It ends on a size such as 19, which divides neither the data nor the devices.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="accelerate==1.15.0 torch==2.13.0 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import sys

from accelerate.utils import find_executable_batch_size

tried = []


@find_executable_batch_size(starting_batch_size=128)
def train(batch_size):
    tried.append(batch_size)
    if batch_size > 20:
        raise RuntimeError('CUDA out of memory.')
    return batch_size


print('found', train())
print('tried', tried)
expected = [128]
while expected[-1] > 20:
    expected.append(int(expected[-1] * 0.9))
if tried != expected:
    sys.exit('Changed: the sizes that are tried are no longer as the comments say.')
CODE
