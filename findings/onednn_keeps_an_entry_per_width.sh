#!/usr/bin/env bash
# Versions: torch==2.13.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: On a CPU, one small convolution that meets 120 different widths of its input makes the
# process grow by more than 100 MB, which no tensor holds. Meeting the same widths again adds next to
# nothing. oneDNN prepares a kernel for each width and keeps it, 1,024 of them by default. With
# ONEDNN_PRIMITIVE_CACHE_CAPACITY=16 the process grows by less than a third of that.
#
# Output seen:
#     default: 120 widths: +183 MB, the same widths again: +0 MB
#     capacity 16: 120 widths: +18 MB, the same widths again: +0 MB
#
# Why it matters: Images, sounds or texts of varying length look like a leak, although all tensors are
# freed and malloc has given everything back.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="torch==2.13.0 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import os
import subprocess
import sys

code = '''
import torch

torch.set_num_threads(1)
convolution = torch.nn.Conv2d(16, 16, 3)


def resident():
    """MB of memory that this process holds."""
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def all_widths():
    with torch.no_grad():
        for i in range(120):
            convolution(torch.randn(1, 16, 64, 64 + 4 * i))
    return resident()


with torch.no_grad():
    convolution(torch.randn(1, 16, 64, 600))        # the largest, so that malloc has room for the others
before = resident()
first = all_widths()
print(first - before, all_widths() - first)
'''
found = {}
for name, capacity in (('default', None), ('capacity 16', '16')):
    env = dict(os.environ)
    env.pop('ONEDNN_PRIMITIVE_CACHE_CAPACITY', None)
    if capacity:
        env['ONEDNN_PRIMITIVE_CACHE_CAPACITY'] = capacity
    run = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, env=env)
    if run.returncode != 0:
        sys.exit('PyTorch did not run: ' + run.stderr[-300:])
    first, again = map(float, run.stdout.split())
    found[name] = first, again
    print(f'{name}: 120 widths: {first:+.0f} MB, the same widths again: {again:+.0f} MB')
grown, again = found['default']
limited, _ = found['capacity 16']
if not (grown > 100 and again < 10 and limited < grown / 3):
    sys.exit('Changed: what is kept for each width is no longer as the comments say.')
CODE
