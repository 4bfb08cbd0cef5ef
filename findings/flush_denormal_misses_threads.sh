#!/usr/bin/env bash
# Versions: torch==2.13.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: torch.set_flush_denormal(True) sets a mode of the calling thread. PyTorch's threads that
# exist already keep theirs: of one multiplication of a tensor of subnormal numbers, the part of the
# calling thread is flushed to zero, and the rest is not. It returns True all the same. Called before the
# first parallel operation, it reaches all threads.
#
# Output seen:
#     early call: returned True numbers that are not zero in the first half: 0 and in the second: 0
#     late call: returned True numbers that are not zero in the first half: 0 and in the second: 1000000
#
# Why it matters: The call is the usual remedy when steps become slow because values have become tiny.
# Late in a program it mends a share of one thread, and results depend on which thread computed them.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="torch==2.13.0 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import subprocess
import sys

import torch

code = '''
import sys, torch
torch.set_num_threads(2)
if sys.argv[1] == "late":
    torch.ones(2_000_000) * 2
done = torch.set_flush_denormal(True)
x = torch.full((2_000_000,), 713_623, dtype=torch.int32).view(torch.float32)     # the bits of 1e-39
bits = (x * 2).view(torch.int32)
print(done, (bits[:1_000_000] != 0).sum().item(), (bits[1_000_000:] != 0).sum().item())
'''
found = {}
for when in ('early', 'late'):
    run = subprocess.run([sys.executable, '-c', code, when], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit('PyTorch did not run: ' + run.stderr[-300:])
    done, first, second = run.stdout.split()
    found[when] = (int(first), int(second))
    print(when, 'call: returned', done, 'numbers that are not zero in the first half:', first, 'and in the second:', second)
    if done != 'True':
        sys.exit('This processor cannot flush subnormal numbers, so the script can say nothing.')
if found != {'early': (0, 0), 'late': (0, 1_000_000)}:
    sys.exit('Changed: which threads are reached is no longer as the comments say.')
CODE
