"""Run a training script in blocks of steps, each when somebody asks for it.

``python paced.py HOW BLOCK SOCKET script.py args…`` runs the script unchanged. After each BLOCK calls of an
optimizer's ``step`` it sends the seconds that they took, by the clock on the wall and by the processor's, to
the Unix socket, and waits for a byte: ``g`` to go on; anything else, or the end of the connection, ends the
script. So several versions of one script can take turns on one machine, and what disturbs a block disturbs
its neighbours.

HOW is ``alone``; or ``why_slow``, which watches the script meanwhile; or ``traceml``, which marks its steps
for that tool, and must be started by it.
"""

import os
import runpy
import socket
import sys
import time


class Enough(BaseException):
    """Ends the script; no ``except Exception`` of it catches this."""


class Pace:
    """The seconds of blocks of steps, to somebody at the other end of a socket."""

    def __init__(self, block: int, path: str):
        self.block = block
        self.steps = 0
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(path)
        self.start()

    def start(self) -> None:
        self.began = time.perf_counter()
        self.began_cpu = time.process_time()

    def step(self) -> None:
        self.steps += 1
        if self.steps % self.block:
            return
        seconds = time.perf_counter() - self.began
        cpu_seconds = time.process_time() - self.began_cpu
        self.connection.sendall(f'{seconds!r} {cpu_seconds!r}\n'.encode())
        if self.connection.recv(1) != b'g':
            raise Enough
        self.start()


def count_mxnet(pace: Pace) -> None:
    """Let each ``gluon.Trainer.step`` count as a step, its work included."""
    import mxnet

    original = mxnet.gluon.Trainer.step

    def step(self, *args, **kwargs):
        original(self, *args, **kwargs)
        mxnet.nd.waitall()
        pace.step()

    mxnet.gluon.Trainer.step = step


def count_torch(pace: Pace) -> None:
    """Let each ``step`` of any optimizer of PyTorch count as a step."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def step(optimizer, args, kwargs):
        pace.step()

    register_optimizer_step_post_hook(step)


def watch_with_why_slow() -> None:
    """What ``python -m why_slow`` does in each step while it only watches."""
    import torch

    from why_slow import torch_hooks
    from why_slow.watch import Watch

    watch = Watch()
    patches = torch_hooks.attach(torch, watch)

    def forever():
        yield
        torch_hooks.mark_modules(torch, watch, patches, torch_hooks.modules_of(torch, watch))
        while True:
            yield

    watch.plan = forever()
    next(watch.plan)
    watch.active = True


def mark_for_traceml() -> None:
    """Mark a step for ``traceml_ai`` from the first call of a module to the last optimizer's step."""
    import torch
    import traceml_ai
    from torch.nn.modules.module import register_module_forward_pre_hook
    from torch.optim.optimizer import register_optimizer_step_post_hook

    traceml_ai.init(mode='auto')
    small = torch.nn.Linear(1, 1)
    for batch in torch.utils.data.DataLoader([torch.ones(1)]):
        with traceml_ai.trace_step(small):  # its first step registers hooks, which no hook may do
            small(batch).sum().backward()
            torch.optim.SGD(small.parameters(), 0.1).step()
    order = []          # optimizers in the order in which they step; the last of them ends a step
    open_step = []

    def begin(module, inputs):
        round_is_known = len(order) > len(set(order))
        if round_is_known and not open_step:
            open_step.append(traceml_ai.trace_step(module))
            open_step[0].__enter__()

    def end(optimizer, args, kwargs):
        round_is_known = len(order) > len(set(order))
        if not round_is_known:
            order.append(id(optimizer))
        elif open_step and id(optimizer) == order[-2]:
            open_step.pop().__exit__(None, None, None)

    register_module_forward_pre_hook(begin)
    register_optimizer_step_post_hook(end)


def main(how: str, block: str, path: str, script: str, *args: str) -> None:
    watch = {'alone': lambda: None, 'why_slow': watch_with_why_slow, 'traceml': mark_for_traceml}[how]
    watch()
    with open(script) as file:
        uses_mxnet = 'import mxnet' in file.read()
    pace = Pace(int(block), path)
    count = count_mxnet if uses_mxnet else count_torch
    count(pace)
    sys.argv = [script, *args]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    try:
        runpy.run_path(script, run_name='__main__')
    except Enough:
        pass
    else:
        raise SystemExit(f'{script} ended after {pace.steps} steps, before it was told to')


if __name__ == '__main__':
    main(*sys.argv[1:])
