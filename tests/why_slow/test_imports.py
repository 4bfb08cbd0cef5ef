"""Something is done right after an import, and not before."""

import sys

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
