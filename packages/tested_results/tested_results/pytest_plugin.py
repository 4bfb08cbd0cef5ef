"""Judge the results of notebooks that nbval runs: a plugin of pytest.

    pytest -p tested_results.pytest_plugin --nbval-lax FOLDER

The results are taken from the metadata of the cells' outputs. At the end :mod:`tested_results.judgement` says
what they mean beside those that the notebooks have stored and beside the ledgers of machines. A timed result
that fails unexpectedly is tried once more in a fresh kernel. A line that begins with RED makes the run fail.

Where the environment does not say how long results are measured, they are measured for a quarter of the
usual time: in seven windows of a seventh of a second (whose interval covers 98.4%), and in seven more if
these do not decide. ``--nbval`` compares the text of outputs too, and then needs masks for what differs from
run to run.

Processes of pytest-xdist hand their results to the one that started them. What they measured was measured
beside each other, which :func:`tested_results.judgement.judge` takes into account. Another plugin may add to
the judgement by the hook of :class:`Hooks`. Needs ``nbval`` and ``nbclient``.
"""

import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from tested_results import judgement, ledgers, machine
from tested_results.claims import METADATA_KEY, Claim
from tested_results.execution import CellFailed, execute
from tested_results.files import put_whole
from tested_results.judgement import Judgement
from tested_results.ledgers import Ledger

# Seconds of all windows, seconds to wait for a condition, number of windows.
SETTINGS = {'TESTED_RESULTS_SPAN': '1', 'TESTED_RESULTS_BUDGET': '3', 'TESTED_RESULTS_WINDOWS': '7'}


class Hooks:
    """What other plugins may implement."""

    def pytest_results_judged(self, config: pytest.Config, said: Judgement, ran: set[Path],
                              stored: list[Ledger]) -> None:
        """Change what is said of a run before it is printed; ``ran`` are the notebooks that ran."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(Hooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup('tested_results', 'results of notebooks')
    group.addoption('--results-ledgers', type=Path, metavar='FOLDER',
                    help='where the ledgers of machines are (default: ledgers, in the root folder)')
    group.addoption('--results-to', type=Path, metavar='FILE',
                    help='write the results to a file, for a further run that judges them with its own')
    group.addoption('--results-from', type=Path, metavar='FILE', help='judge the results in this file too')


def pytest_configure(config: pytest.Config) -> None:
    results = Results(config)
    if config.option.results_from and not hasattr(config, 'workerinput'):
        results.read(config.option.results_from)
    config.pluginmanager.register(results, 'tested_results')


@contextlib.contextmanager
def _settings() -> Iterator[None]:
    """Kernels that are started meanwhile measure as :data:`SETTINGS` say where the environment is silent.

    They read and write no guesses of whoever runs the tests.
    """
    new = {name: value for name, value in SETTINGS.items() if name not in os.environ}
    new['TESTED_RESULTS_GUESSES'] = 'off'
    before = {name: os.environ.get(name) for name in new}
    os.environ.update(new)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _is_cell(item: pytest.Item) -> bool:
    """Whether it is a cell of a notebook, and no test of another kind."""
    return hasattr(item, 'cell_num')


class Results:
    """What a run has seen, and what is said of it.

    Attributes:
        found: the results, in the order in which they were made.
        beside: the ids of those that were measured beside other notebooks.
        cells: how many cells of each notebook ran.
        said: the judgement; None as long as there is none.
        ledger: the stored one of this kind of machine, if there is one.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.found: list[Claim] = []
        self.beside: set[str] = set()
        self.cells: Counter[Path] = Counter()
        self.said: Judgement | None = None
        self.ledger: Ledger | None = None

    # While cells run ---------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """Before its first cell runs, the kernel of a notebook is started."""
        if not _is_cell(item):
            return (yield)
        with _settings():
            return (yield)

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if not _is_cell(item):
            return
        self.cells[item.path] += 0              # it is a notebook that was begun
        if item.test_outputs is None:           # skipped, or its kernel died
            return
        self.cells[item.path] += 1
        for out in item.test_outputs:
            if data := out.get('metadata', {}).get(METADATA_KEY):
                self.found.append(Claim.of(dict(data)))

    # Between processes ---------------------------------------------------------------------------------

    def _as_json(self) -> str:
        return json.dumps({'results': [c.data() for c in self.found], 'beside': sorted(self.beside),
                           'cells': {str(path): n for path, n in self.cells.items()}})

    def _add(self, text: str) -> list[str]:
        """Add what another process saw; returns the ids of its results."""
        data = json.loads(text)
        theirs = [Claim.of(result) for result in data['results']]
        self.found += theirs
        self.beside.update(data['beside'])
        self.cells.update({Path(path): n for path, n in data['cells'].items()})
        return [c.id for c in theirs]

    def read(self, file: Path) -> None:
        """Add what another run has written with ``--results-to``."""
        try:
            self._add(file.read_text())
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise pytest.UsageError(f'--results-from: {file} has no results of a run ({e}); '
                                    'write it with --results-to') from None

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node, error) -> None:
        """A process of pytest-xdist has ended; one that crashed has handed over nothing."""
        text = getattr(node, 'workeroutput', {}).get('tested_results')
        if text:
            self.beside.update(self._add(text))

    # At the end --------------------------------------------------------------------------------------

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        config = self.config
        if config.option.collectonly:
            return
        if hasattr(config, 'workeroutput'):
            config.workeroutput['tested_results'] = self._as_json()
            return
        if config.option.results_to:
            put_whole(config.option.results_to, self._as_json())
            return
        if not self.cells:
            return
        self.said = self._judge()
        if exitstatus == pytest.ExitCode.OK and self.said.red:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _judge(self) -> Judgement:
        folder = self.config.option.results_ledgers or self.config.rootpath / 'ledgers'
        try:
            stored = ledgers.load_all(folder)
        except ledgers.Refused as e:
            return Judgement(red=[str(e)])
        here = machine.machine()
        comparable = ledgers.comparable(stored, here)
        self.ledger = comparable[0] if comparable else None
        known = judgement.expected(folder)
        reference, homes = self._stored_results()
        said = judgement.judge(self.found, here, stored, reference, known, beside=self.beside)
        again = [id for id in said.again if id in homes]
        if said.again:
            twice = self._verdicts_in_fresh_kernels(again, homes)
            said = judgement.judge(self.found, here, stored, reference, known, twice, self.beside)
        self.config.hook.pytest_results_judged(
            config=self.config, said=said, ran=set(self.cells), stored=stored)
        return said

    def _stored_results(self) -> tuple[dict[str, Claim], dict[str, Path]]:
        """The stored results of the notebooks that ran from end to end, by id, and where each is made."""
        reference: dict[str, Claim] = {}
        homes: dict[str, Path] = {}
        for path, cells in self.cells.items():
            nb = nbformat.read(path, as_version=4)
            if cells < sum(cell.cell_type == 'code' for cell in nb.cells):
                continue
            for c in ledgers.claims_of(nb):
                reference[c.id] = c
                homes[c.id] = path
        return reference, homes

    def _verdicts_in_fresh_kernels(self, ids: list[str], homes: dict[str, Path]) -> dict[str, list[str]]:
        """Run the notebooks of these results once more; returns the verdicts that came out."""
        verdicts: dict[str, list[str]] = {id: [] for id in ids}
        for path in dict.fromkeys(homes[id] for id in ids):
            try:
                with _settings():
                    nb = execute(path, 'once more: ', kernel=self._kernel(path))
            except CellFailed:
                continue                # red already: a cell that fails is a test that fails
            for c in ledgers.claims_of(nb):
                if c.id in verdicts:
                    verdicts[c.id].append(c.verdict)
        return verdicts

    def _kernel(self, path: Path) -> str:
        """The name of the kernel in which nbval runs a notebook."""
        if self.config.option.nbval_current_env:
            return 'python3'
        if self.config.option.nbval_kernel_name:
            return self.config.option.nbval_kernel_name
        return nbformat.read(path, as_version=4).metadata.get('kernelspec', {}).get('name', 'python3')

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.said is None:
            return
        write = terminalreporter.write_line
        counts = Counter(c.verdict for c in self.found)
        write(f'results: {len(self.found)}: ' + ', '.join(f'{n} {v}' for v, n in counts.items()))
        if self.ledger is None:
            here = machine.machine()
            frameworks = ', '.join(f'{name} {number}' for name, number in ledgers.releases(here).items())
            write(f'no stored ledger is of this kind of machine ({ledgers.kind(here)}) and these releases '
                  f'({frameworks or "no framework"})')
        else:
            within, between, n = ledgers.count_inside_intervals(self.found, self.ledger)
            write(f'medians of this run in the stored intervals: {within} of {n} within one run, '
                  f'{between} of {n} in the published ones')
        for line in self.said.notes:
            write(line)
        for line in self.said.findings:
            write(f'finding: fails here: {line}')
        for line in self.said.red:
            write(f'RED: {line}')
