"""A compile cache of one's own, and generated code as a page prints it."""

import os
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip('torch')
from torch._inductor import config  # noqa: E402

import compiling  # noqa: E402
from tested_results import machine  # noqa: E402

HERE = 'TORCHINDUCTOR_CACHE_DIR'


def settings():
    return os.environ.get(HERE), os.environ.get('TRITON_CACHE_DIR'), [
        config.cpp_cache_precompile_headers, config.aot_inductor.precompile_headers,
        config.cpp.vec_isa_ok, config.cpp.simdlen]


def test_a_cache_is_empty_and_its_end_restores_what_it_changed():
    before = settings()
    with compiling.fresh_compile_cache() as cache:
        assert os.environ[HERE] == str(cache.folder) and not list(cache.folder.iterdir())
        (cache.folder / 'kernel.so').touch()
    assert settings() == before and not cache.folder.exists()
    cache.close()       # again: nothing happens
    assert settings() == before


@pytest.mark.slow
def test_a_cuda_toolkit_without_a_gpu_is_no_message_on_a_page():
    look = 'import compiling; from torch.utils import cpp_extension; cpp_extension._find_cuda_home()'
    says = subprocess.run(
        [sys.executable, '-c', look], capture_output=True, text=True,
        env={**os.environ, 'CUDA_HOME': '/usr', 'CUDA_VISIBLE_DEVICES': '',
             'PYTHONPATH': os.pathsep.join(sys.path)})
    assert (says.returncode, says.stderr) == (0, '')


def test_headers_are_precompiled_by_default_into_a_folder_of_the_process(monkeypatch):
    from torch._inductor import codecache
    before = settings(), codecache._HEADER_DIR, codecache._HEADER_LOCK_DIR
    folders = set()
    for found in ('openssl', 'openssl', None):
        monkeypatch.setattr(compiling.shutil, 'which', lambda name, found=found: found)
        with compiling.fresh_compile_cache() as cache:
            assert config.cpp_cache_precompile_headers == bool(found)
            if found:
                folders.add(codecache._HEADER_DIR)
                assert codecache._HEADER_DIR not in (before[1], str(cache.folder))
            else:
                assert codecache._HEADER_DIR == before[1]
        assert (settings(), codecache._HEADER_DIR, codecache._HEADER_LOCK_DIR) == before
    folder, = folders       # one for both caches, and still there
    assert os.path.isdir(folder)


def test_what_is_compiled_has_the_widest_vectors_and_what_is_shown_the_same_on_all_processors():
    with compiling.fresh_compile_cache():
        assert config.cpp.simdlen is None
        code = compiling.generated_code(chain, torch.ones(64))
    if 'cpp.simdlen' in compiling.SHOWN:
        assert 'x0+=8)' in compiling.kernels(code)[0].replace('static_cast<int64_t>(8L)', '8')


def test_an_error_closes_it_too():
    before = settings()
    with pytest.raises(ZeroDivisionError), compiling.fresh_compile_cache() as cache:
        raise ZeroDivisionError
    assert settings() == before and not cache.folder.exists()


def test_a_second_cache_closes_the_first():
    before = settings()
    first = compiling.fresh_compile_cache()
    second = compiling.fresh_compile_cache()
    assert os.environ[HERE] == str(second.folder) and not first.folder.exists()
    first.close()
    assert os.environ[HERE] == str(second.folder)
    second.close()
    assert settings() == before


def test_the_end_of_the_process_deletes_a_folder_that_was_forgotten():
    code = (f'import sys; sys.path.insert(0, {os.path.dirname(compiling.__file__)!r}); '
            'import compiling; cache = compiling.fresh_compile_cache(); '
            'open(cache.folder / "kernel.so", "w").close(); print(cache.folder); '
            'print(*[folder.name for folder in compiling._headers])')
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    cache, headers = done.stdout.split('\n')[:2]
    assert cache and not os.path.exists(cache)
    assert not headers or not os.path.exists(headers)


def chain(x):
    for _ in range(3):
        x = 0.99 * x + 0.01
    return x


def test_the_loop_of_a_chain():
    with compiling.fresh_compile_cache() as cache:
        code = compiling.generated_code(chain, torch.ones(16))
        # PyTorch compiles small programs to ask for the processor's vector instructions.
        built = [f for f in cache.folder.rglob('*.so')
                 if 'chk_kernel' not in f.with_suffix('.cpp').read_text()]
        assert not built, 'the C++ compiler ran'
    loop, = compiling.kernels(code)
    assert loop.startswith('for(int64_t x0=0; x0<16; x0+=') and loop.endswith('\n}')
    operations = [ln for ln in loop.splitlines() if ' * ' in ln or ' + ' in ln and 'ptr' not in ln]
    assert len(operations) == 6 and 'int64_t>(' not in loop and loop.count('.store(') == 1
    assert 'empty_strided_cpu((16, )' in compiling.wrapper(code)
    assert compiling.wrapper(code).splitlines()[-1] == 'return (buf0, )'


def test_each_loop_of_a_network_and_its_library_calls():
    layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32),
                                 torch.nn.ReLU(), torch.nn.Linear(32, 16))
    with torch.no_grad(), compiling.fresh_compile_cache():
        code = compiling.generated_code(layers, torch.ones(5, 64))
    assert len(compiling.kernels(code)) == 2 and compiling.wrapper(code).count('.addmm(') == 3


def test_two_loops_of_one_kernel_are_both_kept():
    def centered(x):
        return x - x.sum()
    with compiling.fresh_compile_cache():
        kernel, = compiling.kernels(compiling.generated_code(centered, torch.ones(64)))
    assert kernel.count('for(') == 2 and kernel.count('{') == kernel.count('}') > 2
    assert '.store(' in kernel and 'inductor_cpu' not in kernel


def test_triton_is_written_where_it_is_not_installed():
    before = config.cpu_backend
    with compiling.fresh_compile_cache():
        kernel, = compiling.kernels(compiling.generated_code(chain, torch.ones(4096), triton=True))
    assert kernel.startswith('@triton.jit\ndef triton_poi_fused_add_mul_0(in_ptr0, out_ptr0, ')
    assert kernel.count('tl.load(') == kernel.count('tl.store(') == 1 and config.cpu_backend == before


def test_two_graphs_are_not_one():
    def broken(x):
        y = 0.99 * x
        torch._dynamo.graph_break()
        return y + 0.01
    with compiling.fresh_compile_cache(), pytest.raises(torch._dynamo.exc.Unsupported):
        compiling.generated_code(broken, torch.ones(16))


@pytest.mark.skipif(not machine.compiler(), reason='no C++ compiler')
def test_a_function_compiles_after_its_code_was_shown():
    with compiling.fresh_compile_cache() as cache:
        compiling.generated_code(chain, torch.ones(16))
        x = torch.randn(16)
        torch.testing.assert_close(torch.compile(chain)(x), chain(x))
        assert list(cache.folder.rglob('*.so'))


def uses_its_value_twice(x):
    for _ in range(12):
        x = torch.relu(x) + x
    return x


@pytest.mark.slow
def test_a_chain_that_uses_its_value_twice_compiles_sooner_if_expressions_are_stored_earlier():
    """What the first page of hybridization says of ``realize_opcount_threshold``, an option of Inductor."""
    def seconds_to_generate(threshold):
        with config.patch(realize_opcount_threshold=threshold):
            start = time.process_time()
            compiling.generated_code(uses_its_value_twice, torch.ones(64))
            return time.process_time() - start

    with torch.no_grad(), compiling.fresh_compile_cache():
        compiling.generated_code(chain, torch.ones(64))     # loads the compiler's modules
        by_default = seconds_to_generate(None)
        sooner = seconds_to_generate(10)
    assert by_default > 2 * sooner
