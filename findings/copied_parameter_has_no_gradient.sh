#!/usr/bin/env bash
# Versions: torch==2.13.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: copy.deepcopy of a tensor that requires a gradient copies its .grad; of a torch.nn.Parameter
# it does not, and so of no module. An optimizer copied together with a Parameter refers to the copy, as
# it should, and its next step changes nothing, without a word. torch.save and pickle drop the gradient of
# both.
#
# Output seen:
#     tensor gradient copied: True optimizer refers to the copy: True step moved it: True gradient in the file: False
#     Parameter gradient copied: False optimizer refers to the copy: True step moved it: False gradient in the file: False
#
# Why it matters: Who copies model and optimizer between backward and step (to compare two optimizers on
# one gradient, say, or to time steps from equal states) compares or times steps that do nothing. Tests
# written with plain tensors pass.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="torch==2.13.0 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import copy
import sys

import torch

found = {}
for kind in ('tensor', 'Parameter'):
    weight = torch.ones(3, requires_grad=True)
    if kind == 'Parameter':
        weight = torch.nn.Parameter(torch.ones(3))
    weight.sum().backward()
    optimizer = torch.optim.SGD([weight], lr=1.0)
    weight_copy, optimizer_copy = copy.deepcopy((weight, optimizer))
    refers = optimizer_copy.param_groups[0]['params'][0] is weight_copy
    before = weight_copy.detach().clone()
    optimizer_copy.step()
    moved = not torch.equal(before, weight_copy.detach())
    torch.save(weight, 'weight.pt')
    saved = torch.load('weight.pt').grad is not None
    found[kind] = (weight_copy.grad is not None, refers, moved, saved)
    print(kind, 'gradient copied:', found[kind][0], 'optimizer refers to the copy:', refers, 'step moved it:', moved,
          'gradient in the file:', saved)
if found != {'tensor': (True, True, True, False), 'Parameter': (False, True, False, False)}:
    sys.exit('Changed: what a copy takes along is no longer as the comments say.')
CODE
