#!/usr/bin/env bash
# Versions: torchinfo==1.8.0, torch==2.13.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: torchinfo counts the multiplications of a Linear layer as batch size × parameters, whatever
# lies between the first dimension and the last: for an input of (4, T, 64) it gives the same number for T
# of 1 and of 1,000. An embedding, which multiplies nothing, is counted with all its rows.
# nn.MultiheadAttention counts as zero.
#
# Output seen:
#     Linear, T = 1: torchinfo counts 16,384, computed are 16,384
#     Linear, T = 1000: torchinfo counts 16,384, computed are 16,384,000
#     Embedding of 1000 rows, T = 1: torchinfo counts 256,000, computed are 0
#     MultiheadAttention, T = 16: torchinfo counts 0, computed are 1,179,648
#
# Why it matters: Estimates of compute or utilization of a transformer from its summary are too small by
# the length of the sequence, and its largest entry can be a table look-up.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="torchinfo==1.8.0 torch==2.13.0 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import sys

import torch
import torchinfo

linear = torch.nn.Linear(64, 64, bias=False)
embedding = torch.nn.Embedding(1000, 64)


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(64, 4, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)[0]


cases = [
    ('Linear, T = 1', linear, torch.randn(4, 1, 64), 4 * 64 * 64),
    ('Linear, T = 1000', linear, torch.randn(4, 1000, 64), 4 * 1000 * 64 * 64),
    ('Embedding of 1000 rows, T = 1', embedding, torch.zeros(4, 1, dtype=torch.long), 0),
    ('MultiheadAttention, T = 16', Attention(), torch.randn(4, 16, 64), 4 * 16 * 4 * 64 * 64 + 2 * 4 * 16 * 16 * 64),
]
counted = []
for name, model, data, really in cases:
    summary = torchinfo.summary(model, input_data=data, verbose=0)
    counted.append(summary.total_mult_adds)
    print(f'{name}: torchinfo counts {summary.total_mult_adds:,}, computed are {really:,}')
if counted != [16384, 16384, 256000, 0]:
    sys.exit('Changed: the counts are no longer as the comments say.')
CODE
