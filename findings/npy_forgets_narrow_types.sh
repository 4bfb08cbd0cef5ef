#!/usr/bin/env bash
# Versions: ml_dtypes==0.6.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: np.save writes an array of a type of ml_dtypes without an error, and three of them come back
# in three ways, none of them right: bfloat16 as raw bytes "V2", float8_e4m3fn as raw bytes "V1", and for
# float8_e5m2 np.load raises, because its header says "<f1", a type that NumPy does not have. Importing
# ml_dtypes before loading changes nothing.
#
# Output seen:
#     bfloat16 comes back as |V2
#     float8_e4m3fn comes back as |V1
#     float8_e5m2 comes back as ValueError: descr is not a valid dtype descriptor: '<f1'
#
# Why it matters: A cache of activations or weights in .npy seems to work when it is written, and is found
# to be unreadable, or without its type, when it is needed. Save the view as an unsigned integer, and the
# type beside it.

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

found = []
for name in ('bfloat16', 'float8_e4m3fn', 'float8_e5m2'):
    values = np.array([1.0, 1.5, 2.0], dtype=getattr(ml_dtypes, name))
    np.save(name + '.npy', values)
    try:
        found.append(np.load(name + '.npy').dtype.str)
    except ValueError as error:
        found.append(f'ValueError: {error}')
    print(name, 'comes back as', found[-1])
if found[:2] != ['|V2', '|V1'] or "'<f1'" not in found[2]:
    sys.exit('Changed: what comes back is no longer as the comments say.')
CODE
