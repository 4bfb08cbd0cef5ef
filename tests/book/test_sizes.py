"""The two-device experiment fits a small machine: 4 GB, and one GPU or none."""

import ast
import json
import re
import sys
import textwrap
import weakref

import nbformat
import pytest

from tested_results import machine
from tools.source import ROOT

pytestmark = pytest.mark.slow

GB = 10 ** 9
FOLDER = ROOT / 'chapters' / 'automatic_parallelism'
NOTEBOOKS = [FOLDER / f'automatic_parallelism{s}_pytorch.ipynb' for s in ('', '_solutions')]


@pytest.mark.parametrize('kept', [1, 10, 50, 200])
@pytest.mark.parametrize('free', [0.25 * GB, GB, 2.72 * 2 ** 30, 3 * 2 ** 30, 4 * GB, 40 * GB])
def test_side_uses_its_share_of_the_memory_and_not_much_less(free, kept):
    side = machine.matrix_side(free, kept)
    assert 4 * side ** 2 * (kept + 1) <= 0.25 * free
    step = 256 if side >= 256 else 16
    assert side % step == 0 and side <= 4096
    assert side == 4096 or 4 * (side + step) ** 2 * (kept + 1) > 0.25 * free


def test_sides_of_a_card_with_4_gb():
    left = 3 * GB         # beside a desktop
    assert (machine.matrix_side(left, 50), machine.matrix_side(left, 1)) == (1792, 4096)
    assert machine.matrix_side(4 * GB, 50) == 2048


def test_a_side_that_does_not_exist_is_an_error():
    with pytest.raises(ValueError, match='keep fewer'):
        machine.matrix_side(10_000, 50)
    with pytest.raises(ValueError, match='keep fewer'):
        machine.matrix_side(-1, 1)


def test_free_memory_is_what_the_system_says():
    assert 0 < machine.free_memory() <= machine.memory()


def on_paper(side, kept, capacity, rounds=2):
    """The experiment on tensors without numbers, whose bytes are counted; its peak."""
    torch = pytest.importorskip('torch')
    from torch.utils._python_dispatch import TorchDispatchMode

    class Card(TorchDispatchMode):
        used = peak = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            y = func(*args, **(kwargs or {}))
            self.used += y.nbytes
            self.peak = max(self.peak, self.used)
            weakref.finalize(y, self.free, y.nbytes)
            if self.used > capacity:
                raise torch.OutOfMemoryError
            return y

        def free(self, nbytes):
            self.used -= nbytes

    with Card() as card:
        x = torch.rand(side, side, device='meta')
        for _ in range(rounds):
            ys = [x.mm(x) for _ in range(kept)]
        del ys
    return card.peak


@pytest.mark.parametrize('kept', [1, 50])
def test_the_experiment_fits_a_card_with_4_gb_and_the_usual_sizes_do_not(kept):
    torch = pytest.importorskip('torch')
    free = 3 * GB
    assert on_paper(machine.matrix_side(free, kept), kept, free) <= 0.5 * free
    with pytest.raises(torch.OutOfMemoryError):
        on_paper(4000, 50, free, rounds=1)
    with pytest.raises(torch.OutOfMemoryError):
        on_paper(4000, 50, 4 * GB)


@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda p: p.stem)
def test_no_device_is_asked_for_that_need_not_exist(path):
    """Lists of devices have as many as they name, on any machine; that of all GPUs may have one."""
    code = [c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == 'code']
    made = [ast.unparse(node.value) for node in ast.walk(ast.parse('\n'.join(code)))
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == 'devices']
    assert made and all(re.fullmatch(r'd2l\.devices\(\d\)|\[(VirtualDevice\(\d\)(, )?)+\]', m)
                        for m in made), made
    assert 'try_all_gpus' not in '\n'.join(code)


# Runs the notebook up to its first claim, under a limit of the system and with faked hardware, in a
# process of its own for each setting.
CHILD = '''
    import json, os, resource
    import torch
    import d2l_local.torch as d2l
    from tested_results import machine

    def address_space():
        pages = open('/proc/self/statm').read().split()[0]
        return int(pages) * os.sysconf('SC_PAGE_SIZE')

    def experiment(limit, gpus, usual):
        d2l.devices(2)      # its threads reserve address space that they never use
        d2l.put(torch.rand(64, 64), d2l.devices(2)[-1]).cpu()
        resource.setrlimit(resource.RLIMIT_AS, (address_space() + limit,) * 2)
        machine.free_memory = lambda: limit
        torch.cuda.device_count = lambda: gpus
        if usual:
            [torch.empty(4000, 4000) for _ in range(2 * 51)]
        names = {}
        for source in json.loads(os.environ['CELLS']):
            exec(source, names)
            if 'def together' in source:
                break
        return f"{len(names['devices'])} {names['fits']} {names['side']}"

    for settings in json.loads(os.environ['SETTINGS']):
        if not (child := os.fork()):
            try:
                said = experiment(*settings)
            except BaseException as e:
                said = repr(e)
            print('said', said, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
'''


@pytest.fixture(scope='module')
def experiments():
    """What comes out with 0 and 1 GPU, and with the usual sizes."""
    pytest.importorskip('torch')
    if not sys.platform.startswith('linux'):
        pytest.skip('the limit is kept by Linux')
    cells = nbformat.read(NOTEBOOKS[0], as_version=4).cells
    cells = json.dumps([c.source for c in cells if c.cell_type == 'code'])
    settings = json.dumps([(4 * GB, 0, False), (4 * GB, 1, False), (4 * GB, 0, True)])
    out = machine.run_child(textwrap.dedent(CHILD), timeout=600, CELLS=cells, SETTINGS=settings)
    return re.findall('^said (.*)', out, re.M)


@pytest.mark.parametrize('gpus', [0, 1])
def test_the_notebook_runs_with_4_gb_and_at_most_one_gpu(experiments, gpus):
    devices, fits, side = map(int, experiments[gpus].split())
    assert devices == 2
    assert fits == machine.matrix_side(2 * GB, 50)     # two virtual devices share the memory
    assert 256 <= side <= fits


def test_the_limit_is_one_that_the_usual_sizes_break(experiments):
    assert "can't allocate memory" in experiments[2]
