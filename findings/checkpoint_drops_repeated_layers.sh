#!/usr/bin/env bash
# Versions: torch==2.13.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: torch.utils.checkpoint.checkpoint_sequential applies a module once that occurs several times
# in the Sequential, and so computes another function. A Sequential of four entries with one ReLU object
# used twice becomes three layers. There is no error and no warning.
#
# Output seen:
#     shared ReLU: entries 4 same result with checkpoints: False negative outputs after the ReLU: True
#     separate ReLU: entries 4 same result with checkpoints: True negative outputs after the ReLU: False
#
# Why it matters: Sharing an activation object is common and harmless elsewhere. Turning on checkpointing
# to save memory then changes the network, and a weight that is shared on purpose is applied once.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="torch==2.13.0 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import sys

import torch
from torch.utils.checkpoint import checkpoint_sequential

torch.manual_seed(0)
relu = torch.nn.ReLU()
shared = torch.nn.Sequential(torch.nn.Linear(4, 4), relu, torch.nn.Linear(4, 4), relu)
separate = torch.nn.Sequential(shared[0], torch.nn.ReLU(), shared[2], torch.nn.ReLU())
x = torch.randn(8, 4, requires_grad=True)
equal = {}
smallest = {}
for name, network in (('shared', shared), ('separate', separate)):
    output = checkpoint_sequential(network, 2, x, use_reentrant=False)
    equal[name] = torch.equal(network(x), output)
    smallest[name] = output.min().item()
    print(name, 'ReLU: entries', len(network), 'same result with checkpoints:', equal[name],
          'negative outputs after the ReLU:', smallest[name] < 0)
if equal != {'shared': False, 'separate': True} or smallest['shared'] >= 0:
    sys.exit('Changed: checkpoints no longer drop a module that occurs twice.')
CODE
