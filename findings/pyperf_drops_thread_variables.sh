#!/usr/bin/env bash
# Versions: pyperf==2.10.0 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: pyperf runs a benchmark in worker processes with an environment of its own. OMP_NUM_THREADS,
# OPENBLAS_NUM_THREADS, MKL_NUM_THREADS and CUDA_VISIBLE_DEVICES that were set in the shell are missing
# there, while PYTHONPATH arrives. Only --inherit-environ brings a variable through, and nothing says that
# the others were left out.
#
# Output seen:
#     plain {'OMP_NUM_THREADS': None, 'OPENBLAS_NUM_THREADS': None, 'MKL_NUM_THREADS': None, 'CUDA_VISIBLE_DEVICES': None, 'PYTHONPATH': '.'}
#     inherited {'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': None, 'MKL_NUM_THREADS': None, 'CUDA_VISIBLE_DEVICES': None, 'PYTHONPATH': '.'}
#
# Why it matters: `OMP_NUM_THREADS=1 python bench.py` measures all cores, and a comparison of one thread
# with many compares many with many. The numbers look plausible, so nobody looks.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="pyperf==2.10.0"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
cat > bench.py <<'CODE'
import json
import os

import pyperf

NAMES = ['OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS', 'CUDA_VISIBLE_DEVICES', 'PYTHONPATH']


def look():
    seen = {}
    for name in NAMES:
        seen[name] = os.environ.get(name)
    with open('seen.json', 'w') as file:
        json.dump(seen, file)


runner = pyperf.Runner(processes=1, values=1, warmups=0, loops=1)
runner.bench_func('look', look)
CODE
cat > check.py <<'CODE'
import json
import sys

with open('seen.json') as file:
    seen = json.load(file)
print(sys.argv[1], seen)
missing = ['OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS', 'CUDA_VISIBLE_DEVICES']
wrong = seen['OMP_NUM_THREADS'] != (None if sys.argv[1] == 'plain' else '1')
wrong = wrong or seen['PYTHONPATH'] is None
for name in missing:
    wrong = wrong or seen[name] is not None
if wrong:
    sys.exit('Changed: the variables that reach a worker are no longer those of the comments.')
CODE
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=0 PYTHONPATH=.
python="$folder/venv/bin/python"
"$python" bench.py --quiet > plain.txt || { cat plain.txt; echo "The benchmark did not run."; exit 1; }
"$python" check.py plain || exit 1
"$python" bench.py --quiet --inherit-environ=OMP_NUM_THREADS > kept.txt || { cat kept.txt; exit 1; }
"$python" check.py inherited
