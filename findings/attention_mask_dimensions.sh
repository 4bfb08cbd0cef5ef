#!/usr/bin/env bash
# Versions: torch==2.13.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: On a CPU the number of dimensions of attn_mask decides which kernel
# scaled_dot_product_attention runs. A mask of (S, S) or (1, 1, S, S) runs the fused one; the same mask as
# (1, S, S) runs the formula, which holds the matrix of all scores. So does a mask that requires a
# gradient, and dropout. Nothing says so; the results agree.
#
# Output seen:
#     mask (S, S) fused kernel: True formula: False
#     mask (1, S, S) fused kernel: False formula: True
#     mask (1, 1, S, S) fused kernel: True formula: False
#     mask (S, S) that requires a gradient fused kernel: False formula: True
#     mask none, with dropout fused kernel: False formula: True
#
# Why it matters: Memory that grows with the square of the sequence length, from one missing unsqueeze in
# the code of a mask.

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
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import profile

q = torch.randn(2, 4, 64, 32)
mask = torch.ones(64, 64, dtype=torch.bool).tril()
learned = torch.zeros(64, 64, requires_grad=True)
cases = {
    '(S, S)': {'attn_mask': mask},
    '(1, S, S)': {'attn_mask': mask[None]},
    '(1, 1, S, S)': {'attn_mask': mask[None, None]},
    '(S, S) that requires a gradient': {'attn_mask': learned},
    'none, with dropout': {'dropout_p': 0.1},
}
found = []
for name, arguments in cases.items():
    with profile() as profiler:
        scaled_dot_product_attention(q, q, q, **arguments)
    names = [event.key for event in profiler.key_averages()]
    fused = 'aten::_scaled_dot_product_flash_attention_for_cpu' in names
    formula = 'aten::_scaled_dot_product_attention_math' in names
    found.append((fused, formula))
    print('mask', name, 'fused kernel:', fused, 'formula:', formula)
if found != [(True, False), (False, True), (True, False), (False, True), (False, True)]:
    sys.exit('Changed: which kernel runs is no longer as the comments say.')
CODE
