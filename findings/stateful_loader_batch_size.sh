#!/usr/bin/env bash
# Versions: torchdata==0.11.0, torch==2.13.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: A StatefulDataLoader that resumes with another batch size goes on at the right sample with a
# map-style data set, and at a wrong one with an iterable data set: there its state is a number of
# batches, which it counts again in batches of the new size. After five batches of 10 the next sample is
# 50 for the one and 25 for the other. Resuming the iterable one also reads all earlier samples again.
#
# Output seen:
#     Listed resumed with batches of 10 first sample: 50 samples read for it: 10
#     Listed resumed with batches of 5 first sample: 50 samples read for it: 5
#     Streamed resumed with batches of 10 first sample: 50 samples read for it: 60
#     Streamed resumed with batches of 5 first sample: 25 samples read for it: 30
#
# Why it matters: A run that is resumed on a smaller machine, with a smaller batch, trains on half of what
# it had seen once more (or, with a larger batch, leaves samples out).

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="torchdata==0.11.0 torch==2.13.0 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import sys
import warnings

import torch
from torchdata.stateful_dataloader import StatefulDataLoader

warnings.simplefilter('ignore')
read = []


class Listed(torch.utils.data.Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, index):
        read.append(index)
        return index


class Streamed(torch.utils.data.IterableDataset):
    def __iter__(self):
        for index in range(100):
            read.append(index)
            yield index


found = {}
for kind in (Listed, Streamed):
    loader = StatefulDataLoader(kind(), batch_size=10)
    batches = iter(loader)
    for repetition in range(5):
        next(batches)
    state = loader.state_dict()
    starts = []
    for size in (10, 5):
        read.clear()
        resumed = StatefulDataLoader(kind(), batch_size=size)
        resumed.load_state_dict(state)
        starts.append(next(iter(resumed))[0].item())
        print(kind.__name__, 'resumed with batches of', size, 'first sample:', starts[-1], 'samples read for it:', len(read))
    found[kind.__name__] = starts
if found != {'Listed': [50, 50], 'Streamed': [50, 25]}:
    sys.exit('Changed: where a loader resumes is no longer as the comments say.')
CODE
