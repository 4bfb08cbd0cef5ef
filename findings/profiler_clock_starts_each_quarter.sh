#!/usr/bin/env bash
# Versions: torch==2.13.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: The times in a trace of torch.profiler count from no start that one would guess. They are
# microseconds since baseTimeNanoseconds, and that is neither the start of the trace nor of the machine,
# nor 1970, but the last multiple of 7,889,238 seconds (a quarter of a mean year) since 1970.
#
# Output seen:
#     the base is a multiple of 7889238 seconds: True
#     it is the last one before now: True
#     base + ts is now: True
#
# Why it matters: Traces of two ranks or two days can be laid over each other by their ts alone, until a
# run crosses one of these moments four times a year: then the same ts means another time, and a merged
# picture is wrong by three months. Add the base.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="torch==2.13.0 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import json
import sys
import time

import torch
from torch.profiler import profile

with profile() as profiler:
    torch.ones(10) + 1
profiler.export_chrome_trace('trace.json')
with open('trace.json') as file:
    trace = json.load(file)
base = trace['baseTimeNanoseconds']
quarter = 7_889_238
starts = []
for event in trace['traceEvents']:
    if event.get('cat') == 'cpu_op':
        starts.append(event['ts'])
now = time.time()
restored = base / 1e9 + starts[0] / 1e6
print('the base is a multiple of', quarter, 'seconds:', base % (quarter * 10**9) == 0)
print('it is the last one before now:', 0 <= now - base / 1e9 < quarter)
print('base + ts is now:', abs(now - restored) < 600)
if base % (quarter * 10**9) != 0 or not 0 <= now - base / 1e9 < quarter or abs(now - restored) > 600:
    sys.exit('Changed: the base of the times is no longer as the comments say.')
CODE
