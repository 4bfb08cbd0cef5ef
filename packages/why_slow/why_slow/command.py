"""The command: arguments, the run of the script, Ctrl-C, and what is written at the end."""

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

from why_slow import looks, mxnet_hooks, script, torch_hooks
from why_slow.imports import AfterImport
from why_slow.plan import Session, plan
from why_slow.watch import Ended, Watch

USAGE = '''python -m why_slow [--seconds 60] [--html FILE] [--json FILE] [--no-what-ifs] train.py [arguments]
       python -m why_slow [...] -m module [arguments]
       python -m why_slow --ci OLD.json NEW.json'''


class Interrupted(Ended):
    """Ctrl-C: the script is ended, and what has been found is reported."""


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Our arguments, which end where the script begins; everything from there on is the script's."""
    parser = argparse.ArgumentParser(
        prog='python -m why_slow',
        usage=USAGE,
        allow_abbrev=False,
        description='What do the steps of a training script wait for, and which remedy helps? The script '
        'is run unchanged.',
    )
    parser.add_argument(
        '--seconds', type=float, default=60, help='how long to watch, from the first step on (60)'
    )
    parser.add_argument('--html', metavar='FILE', help='write the report as one HTML file as well')
    parser.add_argument('--json', metavar='FILE', help='write the report as JSON as well')
    parser.add_argument('--no-what-ifs', action='store_true', help='only watch; switch nothing')
    parser.add_argument(
        '--ci',
        nargs=2,
        metavar=('OLD', 'NEW'),
        help='compare two reports; exit status 1 if the step got slower',
    )
    parser.add_argument('-m', dest='module', nargs=argparse.REMAINDER, help='run a module, as python -m does')
    parser.add_argument('script', nargs=argparse.REMAINDER, help='the script and its arguments')
    chosen = parser.parse_args(arguments)
    if chosen.module is not None:
        chosen.script, chosen.is_module = chosen.module, True
    else:
        chosen.is_module = False
    if not chosen.seconds > 0:
        parser.error(f'--seconds must be more than 0, not {chosen.seconds:g}')
    if not chosen.ci and not chosen.script:
        parser.error('name the script to run')
    return chosen


def main(arguments: list[str]) -> int:
    """Run the command; the exit status."""
    chosen = parsed(arguments)
    if chosen.ci:
        from why_slow.compare import compare

        return compare(*chosen.ci)
    if not chosen.is_module and not os.path.isfile(chosen.script[0]):
        what = 'is a folder' if os.path.isdir(chosen.script[0]) else 'does not exist'
        print(f'why_slow: the script {chosen.script[0]} {what}.', file=sys.stderr)
        return 2
    for path in filter(None, (chosen.html, chosen.json)):
        problem = _unwritable(path)
        if problem:  # said before the script has run for a minute
            print(f'why_slow: {path} cannot be written: {problem}', file=sys.stderr)
            return 2
    # The script may change the folder.
    chosen.html, chosen.json = (path and os.path.abspath(path) for path in (chosen.html, chosen.json))
    return Run(chosen).run()


def _unwritable(path: str) -> str:
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        return 'it is a folder'
    if not os.path.isdir(folder):
        return f'there is no folder {folder}'
    if not os.access(folder, os.W_OK):
        return f'the folder {folder} is not writable'
    return ''


class Progress:
    """What is being done now, a line on stderr for each thing."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.began = perf_counter()

    def __call__(self, text: str) -> None:
        if self.quiet:
            return
        with contextlib.suppress(OSError, ValueError):
            print(f'why_slow: {perf_counter() - self.began:4.0f} s: {text}', file=sys.__stderr__, flush=True)


class Run:
    """One run of a script under watch."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self.chosen = chosen
        self.rank = int(os.environ.get('RANK', 0)) if 'WORLD_SIZE' in os.environ else 0
        self.watch = Watch()
        self.session = Session(self.watch, chosen.seconds, not chosen.no_what_ifs)
        self.session.progress = Progress(quiet=self.rank > 0)
        self.imports = AfterImport({'torch': self._torch, 'mxnet': self._mxnet})
        self.ended = 'script'
        self.reported = False

    def _torch(self, torch: Any) -> None:
        self.session.torch = torch
        self.session.patches.add(torch_hooks.attach(torch, self.watch))

    def _mxnet(self, mxnet: Any) -> None:
        self.session.mxnet = mxnet
        self.session.patches.add(mxnet_hooks.attach(mxnet, self.watch))

    def start(self) -> None:
        """Begin to watch."""
        looks.own_files().clear()  # a notebook may have watched another cell
        self.watch.plan = plan(self.session)
        next(self.watch.plan)
        self.watch.given_up = self._given_up
        self.watch.active = True
        self.imports.install()

    def stop(self) -> None:
        """Put everything back."""
        self.imports.remove()
        self.session.restore()

    def run(self, train: Callable[[], None] | None = None) -> int:
        """Run the script, or a function instead of it, and report; its exit status, or ours."""
        self.start()
        ordinary = self._on_interrupt()
        status: int | None = 0
        try:
            name, *arguments = self.chosen.script
            if train is not None:
                train()
            elif self.chosen.is_module:
                script.run_module(name, arguments)
            else:
                script.run_file(name, arguments)
        except Interrupted as end:
            self.ended, status = 'steps', 130
            script.without_us(end).__traceback__ = None
            self.session.notes.append('Ctrl-C ended the script; this is what had been found until then.')
        except Ended as end:
            self.ended = 'steps'
            end.__traceback__ = None  # frees the script's frames, and with them the workers of its loaders
        except SystemExit as end:
            status = self._exit_status(end)
        except BaseException as error:
            self.ended, status = 'error', 1
            if self.session.changed:
                self.session.notes.append(
                    f'The script failed while it was tried with a change ({self.session.switched.title}). '
                    'That may be the reason: with --no-what-ifs it runs as it is.'
                )
            script.show(error)
            if isinstance(error, KeyboardInterrupt):
                status = 130
            error.__traceback__ = None
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, ordinary)
        self.stop()
        if self.ended == 'steps':
            self.session.end_profile()
        if self.ended == 'error' and not self.session.plain:
            self._say('The script failed before enough steps for a report; the error above is its own.')
            return status
        return self.report() or status

    def _exit_status(self, end: SystemExit) -> int:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1

    def _on_interrupt(self) -> Any:
        """The first Ctrl-C ends the script for a report, the second everything."""
        previous = signal.getsignal(signal.SIGINT)
        if (
            threading.current_thread() is not threading.main_thread()
            or previous is not signal.default_int_handler
        ):
            return previous

        def once(number, frame):
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if not self.session.plain or self.watch.over:
                raise KeyboardInterrupt
            self.watch.over = True
            raise Interrupted

        signal.signal(signal.SIGINT, once)
        return previous

    def _say(self, sentence: str) -> None:
        if self.rank == 0:
            print(f'why_slow: {sentence}', file=sys.stderr)

    def _given_up(self, why: str) -> None:
        """The script cannot be ended: report now, and let it run unwatched."""
        self.ended = 'unwatched'
        self.session.notes.append(why)
        self.stop()
        self.report()

    def report(self) -> int:
        """Print and write what was found; 1 if there is nothing to report, or a file could not be written."""
        if self.reported or self.rank > 0:
            return 0
        self.reported = True
        failure = self.watch.failure
        if failure is not None:
            self.session.notes.append(
                f'The watching failed with {type(failure).__name__}: {failure}. This is what it had found.'
            )
        if not self.session.plain:
            self._say(self._no_steps())
            return 0 if self.ended == 'script' else 1
        from why_slow import report

        name = self.chosen.script[0]
        found = report.result(self.session, name, self.chosen.script[1:], self.ended)
        print(report.text(found), flush=True)
        status = 0
        if self.chosen.json:
            status |= self._write(self.chosen.json, json.dumps(found, indent=1, allow_nan=False) + '\n')
        if self.chosen.html:
            from why_slow.html import page

            status |= self._write(self.chosen.html, page(found))
        return status

    def _write(self, path: str, content: str) -> int:
        from why_slow.report import write

        try:
            write(path, content)
        except OSError as error:
            self._say(f'{path} was not written: {error.strerror or error}. The report above is complete.')
            return 1
        return 0

    def _no_steps(self) -> str:
        """Why there is no report."""
        watch, session = self.watch, self.session
        if watch.failure is not None:
            kind = type(watch.failure).__name__
            return f'The watching failed with {kind}: {watch.failure}, and the script was ended.'
        if watch.steps:
            return (
                f'The script took only {watch.steps} step{"s" * (watch.steps > 1)} before it ended, too '
                f'few for a report: let it '
                'train for some more.'
            )
        if session.torch is None and session.mxnet is None:
            return 'The script took no step: it imported neither PyTorch nor MXNet.'
        if os.times().children_user > 1:
            return (
                'The script took no step in its own process, and started others. If those train, start '
                'each with '
                'why_slow itself, for example by torchrun --nproc-per-node 2 -m why_slow train.py.'
            )
        return (
            'The script took no step: no optimizer of torch.optim, no gluon.Trainer and no backward pass '
            'was called often enough '
            'in the thread that runs it.'
        )
