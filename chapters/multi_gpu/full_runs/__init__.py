"""Runs of this topic's notebooks at full size: what they found is kept here, and the pages show it.

``D2L_FULL=10`` in the environment of Jupyter asks for ten epochs on 60,000 images, with all channels.
"""

import json
import os
import time
from pathlib import Path

from d2l_local import data
from tested_results import machine

RECORD = Path(__file__).with_name('record.json')
DATA = {'fashion_mnist': 'Fashion-MNIST', 'stand_in': 'made images of the same shape and number'}


def _runs() -> list[dict]:
    return json.loads(RECORD.read_text()) if RECORD.exists() else []


def _alone() -> bool:
    """Whether no more runs here than a run at full size itself: it keeps all cores busy, and hardly more."""
    return not hasattr(os, 'getloadavg') or os.getloadavg()[0] < machine.cores() + 1.5


def note(name: str, devices: str, seconds: float, accuracy: float) -> None:
    """Keep what a run found, in the place of an older one of this network on these devices.

    Args:
        name: of network and framework: ``'ResNet-18, MXNet'``.
        devices: on which it ran: ``'2 device(s)'``.
        seconds: of an epoch, on average. Not kept where other programs are at work as well.
        accuracy: on the test set, between 0 and 1.
    """
    kept = [r for r in _runs() if (r['name'], r['devices']) != (name, devices)]
    kept.append({'name': name, 'devices': devices, 'data': data.chosen(),
                 'epochs': data.full_epochs(), 'seconds': round(seconds, 1) if _alone() else None,
                 'accuracy': round(accuracy, 3), 'date': time.strftime('%Y-%m-%d'),
                 'machine': machine.describe()})
    kept.sort(key=lambda r: (r['name'], r['devices']))
    RECORD.write_text(json.dumps(kept, indent=1) + '\n')


def show(name: str) -> None:
    """Print what the runs of a network found, or that there was none."""
    runs = [r for r in _runs() if r['name'] == name]
    for r in runs:
        epochs = f'{r["epochs"]} epoch{"s" * (r["epochs"] > 1)}'
        time_taken = (f'{r["seconds"]:,.0f} s an epoch' if r['seconds'] else
                      'not timed, because other programs ran at the same time')
        print(f'full size: {r["name"]}, {r["devices"]}, {epochs} on {DATA[r["data"]]}\n'
              f'  {time_taken}, test accuracy {100 * r["accuracy"]:.1f}%\n'
              f'  recorded on {r["date"]}: {r["machine"]}')
    if not runs:
        print(f'full size: no run of {name} is recorded yet')
