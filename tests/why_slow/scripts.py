"""Small training scripts with one fault each, and how to run them under watch in this process."""

import argparse
import gc
import sys

HEAD = '''
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(4096, 64), torch.randint(10, (4096,)))
net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.Adam(net.parameters(), fused=True)
loss_function = nn.CrossEntropyLoss()


class Batches:
    def __iter__(self):
        order = torch.randperm(4096)
        for first in range(0, 4096, 64):
            rows = order[first:first + 64]
            yield data.tensors[0][rows], data.tensors[1][rows]
'''
LOOP = '''
{before}
for epoch in range({epochs}):
    for x, y in {batches}:
        loss = {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {after}
    {end}
'''


def training(
    before='',
    batches='Batches()',
    loss='loss_function(net(x), y)',
    after='pass',
    end='pass',
    epochs=1000,
    head=HEAD,
):
    """The text of a script that trains, with something planted."""
    return head + LOOP.format(before=before, batches=batches, loss=loss, after=after, end=end, epochs=epochs)


def watched(tmp_path, text, seconds=2.0, what_ifs=False, arguments=()):
    """Run a script under watch in this process: the session, and the report as a dictionary."""
    from why_slow import report
    from why_slow.command import Run

    path = tmp_path / 'train.py'
    path.write_text(text)
    chosen = argparse.Namespace(
        seconds=seconds,
        no_what_ifs=not what_ifs,
        html=None,
        json=None,
        script=[str(path), *arguments],
        is_module=False,
    )
    kept = sys.modules['__main__'], list(sys.argv), list(sys.path)
    run = Run(chosen)
    run.session.progress = None
    gc.freeze()  # what other tests have made is not looked through for modules, which takes long
    try:
        run.status = run.run()
    finally:
        gc.unfreeze()
        sys.modules['__main__'], sys.argv[:], sys.path[:] = kept
    return run, report.result(run.session, 'train.py', list(arguments), run.ended)


def line_with(text, words):
    """The line of the script on which these words stand first."""
    return next(f'train.py:{i}' for i, line in enumerate(text.splitlines(), 1) if words in line)


def ids(found, at_least=1.0):
    """The ids of a report's findings that can gain so much at least."""
    return [finding['id'] for finding in found['findings'] if finding['at_most'] >= at_least]
