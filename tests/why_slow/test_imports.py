"""Something is done right after an import, and not before."""

import importlib.util
import sys

import pytest

from why_slow.imports import AfterImport


def test_after_the_import(tmp_path, monkeypatch):
    (tmp_path / 'imported_late.py').write_text('value = 1')
    monkeypatch.syspath_prepend(str(tmp_path))
    seen = []
    hook = AfterImport(
        {'imported_late': lambda module: seen.append(module.value), 'sys': lambda module: seen.append('sys')}
    )
    hook.install()
    try:
        assert seen == ['sys']
        import imported_late

        assert seen == ['sys', 1]
        assert 'exec_module' not in vars(imported_late.__loader__)
    finally:
        hook.remove()
        sys.modules.pop('imported_late', None)
    assert hook not in sys.meta_path


def test_who_asks_only_whether_a_module_is_there_has_not_imported_it(tmp_path, monkeypatch):
    """Libraries ask so before their import, and an import may fail and be tried again."""
    (tmp_path / 'asked_for.py').write_text('import os\nif not os.environ.get("READY"): raise ImportError')
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv('READY', raising=False)
    seen = []
    hook = AfterImport({'asked_for': lambda module: seen.append(module.__name__)})
    hook.install()
    try:
        assert importlib.util.find_spec('asked_for') is not None
        with pytest.raises(ImportError):
            importlib.import_module('asked_for')
        assert seen == []
        monkeypatch.setenv('READY', '1')
        importlib.import_module('asked_for')
        assert seen == ['asked_for']
        importlib.reload(sys.modules['asked_for'])
        assert seen == ['asked_for']
    finally:
        hook.remove()
        sys.modules.pop('asked_for', None)
