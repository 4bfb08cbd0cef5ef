#!/usr/bin/env bash
# Versions: ml_dtypes==0.6.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: NumPy adds an array of ml_dtypes.bfloat16 in bfloat16, one element after another: the sum of
# 1,000 ones is 256, and their mean is 0.256. The same of float16 is 1,000 and 1.0, because NumPy sums its
# own half type in pairs and takes the mean in float32. np.dot of the same bfloat16 arrays is right.
#
# Output seen:
#     bfloat16: sum 256 mean 0.255859 dot 1000
#     bfloat16 with dtype=np.float32: sum 1000.0 mean 1.0
#     float16: sum 1000.0 mean 1.0
#
# Why it matters: Statistics of weights or losses that are computed with NumPy on arrays from JAX,
# TensorFlow or a bfloat16 checkpoint are wrong by large factors from a few hundred elements on. Pass
# dtype=np.float32.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="ml_dtypes==0.6.0 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import sys

import ml_dtypes
import numpy as np

brain = np.ones(1000, dtype=ml_dtypes.bfloat16)
half = np.ones(1000, dtype=np.float16)
print('bfloat16: sum', brain.sum(), 'mean', brain.mean(), 'dot', np.dot(brain, brain))
print('bfloat16 with dtype=np.float32: sum', brain.sum(dtype=np.float32), 'mean', brain.mean(dtype=np.float32))
print('float16: sum', half.sum(), 'mean', half.mean())
as_stated = (
    float(brain.sum()) == 256
    and float(brain.mean()) < 0.26
    and float(np.dot(brain, brain)) == 1000
    and float(brain.sum(dtype=np.float32)) == 1000
    and float(half.sum()) == 1000
)
if not as_stated:
    sys.exit('Changed: the sums are no longer as the comments say.')
CODE
