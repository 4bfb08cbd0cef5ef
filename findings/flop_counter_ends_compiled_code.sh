#!/usr/bin/env bash
# Versions: torch==2.13.0 and torch==2.14.1, numpy==2.2.6 (run with Python 3.12 on Linux, x86-64).
#
# Behaviour: With 2.13.0, after one call of a compiled function under FlopCounterMode the compiled code is
# never used again, neither in that call nor in all later ones: they run eagerly, without a warning.
# torch.compiler.reset() brings it back. torch.profiler around a call does no such harm. With 2.14.1 the call
# under the counter runs eagerly too, but later ones use the compiled code again
# (https://github.com/pytorch/pytorch/pull/190287).
#
# Output seen:
#     torch 2.13.0
#     first call: uses of the compiled code: 1
#     second call: uses of the compiled code: 1
#     while counted: uses of the compiled code: 0
#     afterwards: uses of the compiled code: 0
#     afterwards, again: uses of the compiled code: 0
#     after torch.compiler.reset(): uses of the compiled code: 1
#     torch 2.14.1
#     first call: uses of the compiled code: 1
#     second call: uses of the compiled code: 1
#     while counted: uses of the compiled code: 0
#     afterwards: uses of the compiled code: 1
#     afterwards, again: uses of the compiled code: 1
#     after torch.compiler.reset(): uses of the compiled code: 1
#
# Why it matters: Whoever counts operations first and times afterwards, which is how a utilization is
# computed, times eager code and reports that compiling does not help.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cd "$folder" || exit 1
for release in 2.13.0 2.14.1; do
packages="torch==$release numpy==2.2.6"
python3 -m venv --clear "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

"$folder/venv/bin/python" -W ignore - <<'CODE' || exit 1
import sys

import torch
from torch.utils.flop_counter import FlopCounterMode

print('torch', torch.__version__.split('+')[0])
calls = []


def backend(graph, example_inputs):
    def run(*inputs):
        calls.append('compiled')
        return graph.forward(*inputs)
    return run


def step(x):
    return torch.relu(x @ x) + 1


compiled = torch.compile(step, backend=backend)
x = torch.randn(8, 8)
found = []


def call(label):
    calls.clear()
    compiled(x)
    found.append(len(calls))
    print(label, 'uses of the compiled code:', len(calls))


call('first call:')
call('second call:')
with FlopCounterMode(display=False):
    call('while counted:')
call('afterwards:')
call('afterwards, again:')
torch.compiler.reset()
call('after torch.compiler.reset():')
forgets = torch.__version__.startswith('2.14.')
expected = [1, 1, 0, 1, 1, 1] if forgets else [1, 1, 0, 0, 0, 1]
if found != expected:
    sys.exit('Changed: the uses of the compiled code are no longer as the comments say.')
CODE
done
