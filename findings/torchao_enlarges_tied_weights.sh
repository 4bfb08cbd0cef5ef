#!/usr/bin/env bash
# Versions: torchao==0.18.0, torch==2.13.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: quantize_ of torchao with Int8WeightOnlyConfig makes a model larger whose output layer shares
# its weight with the embedding. The Linear gets an int8 copy, the embedding keeps the float32 original,
# and the two are no longer tied. There is no warning.
#
# Output seen:
#     bytes before: 4096000
#     bytes after quantizing to int8: 5140000
#     still tied: False
#
# Why it matters: Small language models tie these two, and they are a large part of their weights.
# Quantizing to save memory costs a quarter more for them, and training afterwards changes one without the
# other.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="torchao==0.18.0 torch==2.13.0 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import sys

import torch
from torchao.quantization import Int8WeightOnlyConfig, quantize_


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(4000, 256)
        self.head = torch.nn.Linear(256, 4000, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.embedding(tokens))


def stored(model):
    """Bytes of the different storages behind the model's parameters."""
    sizes = {}
    waiting = [parameter.data for parameter in model.parameters()]
    while waiting:
        tensor = waiting.pop()
        if hasattr(tensor, '__tensor_flatten__'):
            for name in tensor.__tensor_flatten__()[0]:
                waiting.append(getattr(tensor, name))
        else:
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())


model = Tied()
before = stored(model)
quantize_(model, Int8WeightOnlyConfig())
after = stored(model)
tied = model.head.weight is model.embedding.weight
print('bytes before:', before)
print('bytes after quantizing to int8:', after)
print('still tied:', tied)
if before != 4000 * 256 * 4 or after < 1.25 * before or tied:
    sys.exit('Changed: quantizing no longer enlarges the model.')
CODE
