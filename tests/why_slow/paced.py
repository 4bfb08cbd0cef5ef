"""Run a training script in blocks of steps, each when somebody asks for it.

``python paced.py BLOCK WRITE READ script.py args…`` runs the script unchanged. After each BLOCK calls of an
optimizer's ``step`` it writes the seconds that they took, by the clock on the wall and by the processor's, to
the file descriptor WRITE, and waits for a byte on READ: ``g`` to go on; anything else, or the end of the
pipe, ends the script. So two versions of one script can take turns on one machine, and what disturbs a block
disturbs its neighbour.
"""

import os
import runpy
import sys
import time


class Enough(BaseException):
    """Ends the script; no ``except Exception`` of it catches this."""


class Pace:
    def __init__(self, block: int, write: int, read: int):
        self.block = block
        self.write = write
        self.read = read
        self.steps = 0
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
        os.write(self.write, f'{seconds!r} {cpu_seconds!r}\n'.encode())
        if os.read(self.read, 1) != b'g':
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


def main(block: str, write: str, read: str, script: str, *args: str) -> None:
    pace = Pace(int(block), int(write), int(read))
    with open(script) as file:
        uses_mxnet = 'import mxnet' in file.read()
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
