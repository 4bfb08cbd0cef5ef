#!/usr/bin/env bash
# Versions: torch==2.13.0, numpy==2.2.6, coverage==7.17.5 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: coverage reports the body of a function that was called through torch.compile as never run:
# all its lines are missing, also after the call that captured it, because PyTorch's own code runs in its
# place. Called eagerly, they are all covered.
#
# Output seen:
#     compiled.json missing lines of model.py: [5, 6, 7, 8]
#     eager.json missing lines of model.py: []
#
# Why it matters: A project whose tests compile its model reads that its most used functions are untested,
# and a gate on coverage turns red when a decorator is added. Run once more with
# torch.compiler.set_stance("force_eager") to count them.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="torch==2.13.0 numpy==2.2.6 coverage==7.17.5"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
cat > model.py <<'CODE'
import torch


def step(x):
    y = x * 2
    if y.dim() == 1:
        y = y.relu()
    return y


compiled = torch.compile(step, backend="eager")
for repetition in range(3):
    compiled(torch.ones(4))
CODE
cat > forced.py <<'CODE'
import torch

torch.compiler.set_stance("force_eager")
import model
CODE
cat > check.py <<'CODE'
import json
import sys

with open(sys.argv[1]) as file:
    missing = json.load(file)['files']['model.py']['missing_lines']
print(sys.argv[1], 'missing lines of model.py:', missing)
if missing != ([] if sys.argv[1] == 'eager.json' else [5, 6, 7, 8]):
    sys.exit('Changed: the lines that coverage misses are no longer those of the comments.')
CODE
python="$folder/venv/bin/python"
"$python" -m coverage run --include=model.py model.py || { echo "The model did not run."; exit 1; }
"$python" -m coverage json --quiet -o compiled.json
"$python" check.py compiled.json || exit 1
"$python" -m coverage run --include=model.py forced.py || { echo "The model did not run eagerly."; exit 1; }
"$python" -m coverage json --quiet -o eager.json
"$python" check.py eager.json
