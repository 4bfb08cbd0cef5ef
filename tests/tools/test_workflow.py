"""What runs on GitHub: a file that follows the schema of workflows, and does what a reader does."""

import importlib.util
import subprocess
import sys

import pytest
import yaml

from tools.source import ROOT

FOLDER = ROOT / '.github' / 'workflows'


def checked(path):
    """Check a workflow against the schema that comes with check-jsonschema; no network."""
    if importlib.util.find_spec('check_jsonschema') is None:
        pytest.skip('needs check-jsonschema')
    return subprocess.run([sys.executable, '-m', 'check_jsonschema', '--builtin-schema',
                           'vendor.github-workflows', str(path)], capture_output=True, text=True)


@pytest.mark.parametrize('path', sorted(FOLDER.iterdir()), ids=lambda p: p.name)
def test_a_workflow_follows_the_schema(path):
    done = checked(path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(('old', 'new', 'says'), [
    ('runs-on:', 'run-on:', 'run-on'), ('pages: write', 'pages: always', 'always'),
    ('timeout-minutes: 90', 'timeout: 90', 'timeout')])
def test_a_mistake_in_it_is_found(tmp_path, old, new, says):
    text = (FOLDER / 'ci.yml').read_text()
    assert old in text
    (tmp_path / 'ci.yml').write_text(text.replace(old, new))
    done = checked(tmp_path / 'ci.yml')
    assert done.returncode and says in done.stdout


def test_it_tests_on_three_systems_and_publishes_the_pages_of_main_alone():
    jobs = yaml.safe_load((FOLDER / 'ci.yml').read_text())['jobs']
    systems = jobs['test']['strategy']['matrix']['system']
    assert {s.split('-')[0] for s in systems} == {'ubuntu', 'macos'} and any('arm' in s for s in systems)
    runs = {name: [s['run'] for s in job['steps'] if 'run' in s] for name, job in jobs.items()}
    assert '.ci/run' in runs['test'] and (ROOT / '.ci' / 'run').stat().st_mode & 0o100
    assert 'make book' in runs['book'] and 'main' in jobs['book']['if']
    assert jobs['book']['needs'] == 'test' and jobs['publish']['needs'] == 'book'
    assert all('timeout-minutes' in job for job in jobs.values())
    assert all('permissions' not in jobs[name] for name in ('test', 'book'))     # those may only read
