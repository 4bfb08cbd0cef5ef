"""Cells that become modules: who may import them, and what a notebook knows of them."""

import importlib
import os
import subprocess
import sys
import textwrap

import pytest

from local_cluster import cluster, ranks, workers
from tools.source import ROOT


def test_what_cannot_be_imported_or_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match='%%worker'):
        workers.function_name(lambda: 0)
    with pytest.raises(ValueError, match='module:function'):
        workers.function_name('who')
    with pytest.raises(ValueError, match='a name such as'):
        workers.define('two words', '')
    with pytest.raises(ValueError, match='already'):
        workers.define('json', '')


def test_a_folder_is_no_module(tmp_path, monkeypatch):
    """Some packages leave a folder such as "examples" or "tests" beside them, where all are installed."""
    (tmp_path / 'left_by_others').mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert workers.define('left_by_others', 'x = 1').x == 1
    assert importlib.import_module('left_by_others').x == 1


@pytest.mark.slow
def test_the_extension_imports_no_framework_and_makes_names_known():
    code = '''
        from IPython.testing.globalipapp import start_ipython
        shell = start_ipython()
        import sys
        from local_cluster import ranks
        shell.run_line_magic('load_ext', 'local_cluster.workers')
        assert not {'torch', 'mxnet'} & set(sys.modules)
        shell.run_cell_magic('worker', 'adding',
                             'import os\\nN = 2\\ndef double(x): return N * x')
        assert shell.user_ns['double'](4) == 8 and 'os' not in shell.user_ns
        assert ranks.Ranks(2).run(shell.user_ns['double'], 21) == [42, 42]
        print('fine')
    '''
    out = subprocess.run([sys.executable, '-c', textwrap.dedent(code)], capture_output=True, text=True,
                         env={**os.environ, 'PYTHONPATH': str(ROOT)}, timeout=300)
    assert out.stdout.strip().endswith('fine'), out.stderr


@pytest.mark.slow
def test_a_new_group_has_the_new_code_of_a_worker_that_prepares_it(tmp_path, monkeypatch):
    """And runs where its starter is now."""
    def found(value):
        workers.define('d2l_test_prepares', f'def prepare(): pass\ndef value(): return {value}')
        with ranks.Ranks(1, prepare='d2l_test_prepares:prepare') as group:
            return group.run('d2l_test_prepares:value') + group.run('os:getcwd')
    assert found(1) == [1, os.getcwd()]
    monkeypatch.chdir(tmp_path)
    assert found(2) == [2, str(tmp_path)]


@pytest.mark.slow
def test_a_mistake_that_speaks_of_a_timeout_is_the_members_own():
    code = """
import os
import time
def join(rank): return rank
def meet():
    rank = int(os.environ['RANK'])
    if rank: time.sleep(60)
    join(rank, timeout=3)
"""
    workers.define('d2l_test_timeout', code)
    with pytest.raises(cluster.ClusterError) as error, ranks.Ranks(2) as group:
        group.run('d2l_test_timeout:meet')
    assert str(error.value.member) == 'rank 0' and 'raised TypeError' in error.value.headline
