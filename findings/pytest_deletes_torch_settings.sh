#!/usr/bin/env bash
# Versions: torch==2.13.0, numpy==2.2.6, pytest==9.2.0 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: monkeypatch.setattr on a setting of torch._dynamo.config, torch._inductor.config or
# torch.compiler.config does not restore it at teardown: it deletes it, and a read raises "… does not
# exist" in the rest of the process. pytest 9.2.0 looks for the old value in the module's __dict__, where
# these modules hold none (they answer through __getattr__), and takes it for absent. pytest 9.1.1 on the
# same test restores it, and so does the setting's own config.patch.
#
# Output seen:
#     pytest 9.2.0 setting afterwards: gone
#     1 failed, 2 passed
#     pytest 9.1.1 setting afterwards: 8
#     3 passed
#
# Why it matters: One test that patches a setting breaks the later tests that compile, each alone is
# green, and the message names neither pytest nor the test. An update of pytest alone brings it.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="torch==2.13.0 numpy==2.2.6 pytest==9.2.0"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
cat > test_settings.py <<'CODE'
import pytest
import torch._dynamo.config as config


def test_patched(monkeypatch):
    monkeypatch.setattr(config, 'recompile_limit', 3)
    assert config.recompile_limit == 3


def test_afterwards():
    print('\npytest', pytest.__version__, 'setting afterwards:', getattr(config, 'recompile_limit', 'gone'))
    assert hasattr(config, 'recompile_limit')


def test_own_patch():
    import torch._inductor.config as other
    before = other.max_autotune
    with other.patch(max_autotune=True):
        assert other.max_autotune
    assert other.max_autotune == before
CODE
run() {
    "$folder/venv/bin/python" -m pytest -q -s --tb=line -p no:cacheprovider test_settings.py > "$1" 2>&1
    grep -E "^pytest|passed|failed" "$1" | sed 's/ in [0-9.]*s.*//'
}
run new.txt
grep -q "setting afterwards: gone" new.txt && grep -q "1 failed, 2 passed" new.txt ||
    { cat new.txt; echo "Changed: pytest 9.2.0 no longer deletes the setting."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check pytest==9.1.1 ||
    { echo "pip could not install pytest==9.1.1: it is gone from the index, or there is no network."; exit 1; }
run old.txt
grep -q "3 passed" old.txt || { cat old.txt; echo "Changed: pytest 9.1.1 does not restore the setting."; exit 1; }
