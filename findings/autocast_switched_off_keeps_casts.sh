#!/usr/bin/env bash
# Versions: torch==2.13.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: torch.autocast casts a weight once and remembers the cast until the outermost context is left.
# A context with enabled=False counts as the outermost one too, although it casts nothing. So a loop that
# enters autocast in each turn casts its weight in each turn, and only once if autocast(enabled=False)
# stands around the loop. With cache_enabled=False in the outer context the casts are not remembered.
#
# Output seen:
#     casts of the weight in 16 turns:
#     nothing around the loop                 16
#     autocast around the loop                 1
#     autocast(enabled=False) around it        1
#     the same with cache_enabled=False       16
#
# Why it matters: Of two variants of a program, "autocast around all" and "autocast in each call", the second
# becomes as fast as the first when a switch for the outer context stays in place and is set to off. A
# comparison by such a switch says that it makes no difference where the context is entered.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="torch==2.13.0 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import contextlib
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

TURNS = 16
layer, x = torch.nn.Linear(32, 32, bias=False), torch.randn(4, 32)


class Casts(TorchDispatchMode):
    number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function._schema.name == 'aten::_to_copy' and args[0].shape == layer.weight.shape:
            self.number += 1
        return function(*args, **(kwargs or {}))


def casts(around):
    with Casts() as mode, around:
        for _ in range(TURNS):
            with torch.autocast('cpu', torch.bfloat16):
                layer(x)
    return mode.number


def autocast(**how):
    return torch.autocast('cpu', torch.bfloat16, **how)


found = {
    'nothing around the loop': casts(contextlib.nullcontext()),
    'autocast around the loop': casts(autocast()),
    'autocast(enabled=False) around it': casts(autocast(enabled=False)),
    'the same with cache_enabled=False': casts(autocast(enabled=False, cache_enabled=False)),
}
print('casts of the weight in 16 turns:')
for name, number in found.items():
    print(f'{name:35} {number:6}')
if list(found.values()) != [TURNS, 1, 1, TURNS]:
    sys.exit('Changed: the casts are no longer as the comments say.')
CODE
