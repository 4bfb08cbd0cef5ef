#!/usr/bin/env bash
# Versions: jax==0.10.2, jaxlib==0.10.2, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: On a CPU jax.device_put of a NumPy array shares its memory if the array begins at a multiple
# of 64 bytes, and copies it otherwise. So a JAX array, which nothing can change, changes with the NumPy
# array or not, depending on where the allocator has put that. jnp.asarray and jnp.array of the same
# arrays copy in both cases.
#
# Output seen:
#     array at 64 n + 0 bytes, filled with 99 afterwards: device_put holds 99.0 asarray holds 1.0
#     array at 64 n + 16 bytes, filled with 99 afterwards: device_put holds 1.0 asarray holds 1.0
#     array at 64 n + 32 bytes, filled with 99 afterwards: device_put holds 1.0 asarray holds 1.0
#
# Why it matters: A loader that fills one NumPy buffer again and again and gives it to device_put trains
# on later batches than it believes, on some runs and some array sizes and not on others.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="jax==0.10.2 jaxlib==0.10.2 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import sys

import jax
import jax.numpy as jnp
import numpy as np

jax.device_put(np.zeros(1)).block_until_ready()
memory = np.zeros(4096 + 128, dtype=np.uint8)
start = -memory.ctypes.data % 64
found = {}
for shift in (0, 16, 32):
    batch = memory[start + shift:start + shift + 4096].view(np.float32)
    batch[:] = 1
    put = jax.device_put(batch).block_until_ready()
    converted = jnp.asarray(batch).block_until_ready()
    batch[:] = 99
    found[shift] = (float(put[0]), float(converted[0]))
    print(f'array at 64 n + {shift} bytes, filled with 99 afterwards:',
          'device_put holds', found[shift][0], 'asarray holds', found[shift][1])
if found != {0: (99.0, 1.0), 16: (1.0, 1.0), 32: (1.0, 1.0)}:
    sys.exit('Changed: which arrays are shared is no longer as the comments say.')
CODE
