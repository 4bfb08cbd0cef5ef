#!/usr/bin/env bash
# Versions: torchmetrics==1.9.0, torch==2.13.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: MeanMetric of TorchMetrics counts its samples in float32 and stops at 16,777,216: a value
# added afterwards on its own changes neither the mean nor the weight. 20,000 zeros after 2**24 ones leave
# the mean at 1. double() changes nothing, since a metric ignores it; set_dtype(torch.float64) helps.
#
# Output seen:
#     as made mean: 1.0 weight: 16777216.0
#     double() mean: 1.0 weight: 16777216.0
#     set_dtype(torch.float64) mean: 0.9988093264979149 weight: 16797216.0
#
# Why it matters: A running mean of a loss over a long run, or one that is weighted with tokens, freezes,
# and the curve that was drawn from it looks like convergence.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="torchmetrics==1.9.0 torch==2.13.0 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import sys

import torch
from torchmetrics import MeanMetric

found = {}
for name in ('as made', 'double()', 'set_dtype(torch.float64)'):
    metric = MeanMetric()
    if name == 'double()':
        metric = metric.double()
    if name == 'set_dtype(torch.float64)':
        metric = metric.set_dtype(torch.float64)
    metric.update(torch.ones(2**24))
    for repetition in range(20_000):
        metric.update(0.0)
    found[name] = (metric.compute().item(), metric.weight.item())
    print(name, 'mean:', found[name][0], 'weight:', found[name][1])
frozen = (1.0, 2.0**24)
right = (2**24 / (2**24 + 20_000), 2.0**24 + 20_000)
if found != {'as made': frozen, 'double()': frozen, 'set_dtype(torch.float64)': right}:
    sys.exit('Changed: the mean is no longer as the comments say.')
CODE
