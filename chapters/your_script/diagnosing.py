"""What the notebook of this topic needs: run the command on a script, and show its report."""

import html
import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent / 'scripts'


@dataclass
class Report:
    """What ``why_slow`` found in a script: its text, and the same as data.

    A notebook shows the text. It differs from run to run, so it is marked as measured.
    """

    script: str
    text: str
    data: dict

    def __repr__(self) -> str:
        return f'the report of {self.script}'

    def _repr_html_(self) -> str:
        return f'<div class="d2l-measured"><pre>{html.escape(self.text)}</pre></div>'

    def ratio(self, what_if: str) -> float:
        """How many times as long it takes as it is, by a what-if that the report names by this id.

        Not a number if there was no time left to try it.
        """
        ratios = [result['ratio'] for result in self.data['what_ifs'] if result['id'] == what_if]
        return ratios[0] if ratios else math.nan


def diagnose(script: str, *arguments: str, seconds: float = 20) -> Report:
    """Run ``python -m why_slow`` on a script of this topic.

    Args:
        script: the name of a file in the folder ``scripts``.
        arguments: of the script.
        seconds: how long to watch it; the script is ended then.

    Raises:
        RuntimeError: the command failed; the message has the end of what it said.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / 'report.json'
        command = [sys.executable, '-m', 'why_slow', '--seconds', str(seconds), '--json', str(out)]
        done = subprocess.run([*command, script, *arguments], capture_output=True, text=True, cwd=SCRIPTS)
        if done.returncode or not out.exists():
            said = done.stdout[-1000:] + done.stderr[-2000:]
            raise RuntimeError(f'why_slow ended with {done.returncode} on {script}:\n{said}')
        text = done.stdout[done.stdout.index('why_slow: '):]
        return Report(' '.join([script, *arguments]), text, json.loads(out.read_text()))
