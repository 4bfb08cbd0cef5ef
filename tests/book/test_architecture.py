"""The page on the house speaks of the house that stands here."""

import re
import subprocess
import sys
from pathlib import Path

from tools.source import ROOT

PAGE = (ROOT / 'ARCHITECTURE.md').read_text()
PICTURE = PAGE.split('```')[1]


def test_every_file_that_it_names_is_there():
    text = re.sub(r'```sh\n.*?```', '', PAGE, flags=re.DOTALL)      # commands may make files
    names = set(re.findall(r'`?((?:[\w.]+/)*[\w.]+\.(?:py|md|cfg|yml|csv|txt))\b', text))
    names |= set(re.findall(r'`((?:[\w.]+/)+)`', text))
    assert len(names) > 20
    # The picture names modules by their short names.
    places = (ROOT, ROOT / 'chapters', ROOT / 'd2l_local', *ROOT.glob('packages/*'), *ROOT.glob('chapters/*'))
    assert not [n for n in names if not any((p / n).exists() for p in places)]


def test_every_helper_and_every_tool_is_on_it():
    files = [p for folder in ('d2l_local', 'tools', 'packages/*/*') for p in ROOT.glob(f'{folder}/*.py')
             if not p.stem.startswith('__')]
    assert not [p.name for p in files if not re.search(rf'\b{p.stem}\b', PICTURE)]


def test_arrows_run_downwards_only():
    """The contracts stand in pyproject.toml; import-linter reads them."""
    done = subprocess.run([Path(sys.executable).with_name('lint-imports'), '--no-cache'], cwd=ROOT, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stdout
