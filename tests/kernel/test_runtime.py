"""The engine around the code generator: LAPACK pointers, driver functions, the disk cache,
forked processes.
"""

from __future__ import annotations

import ctypes
import os
import warnings

import pytest

import numpy as np
from tetrax.compiler.cpu import compile_driver, compile_kernels
from tetrax.config import config
from tetrax.ir import kernel as k
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.runtime import disk_cache, lapack, threads


def test_every_lapack_routine_in_the_table_exists():
    assert all(lapack.routine_address(symbol) for symbol in lapack.routine_names())
    assert lapack.routine_address("lapack_dnothing") is None


def test_a_kernel_calls_lapack():
    b = KernelBuilder()
    a, info = b.buffer("a", k.F64, 9, "inout"), b.output("info", k.I32, 1)
    n, letter = b.temporary(k.I32, 1), b.temporary(k.U8, 1)
    b.store(n, 0, k.const(3, k.I32))
    b.store(letter, 0, k.const(ord("U"), k.U8))  # the upper half by columns is the lower by rows
    arguments = [b.address(x) for x in (letter, n, a, n, info)]
    b.call("lapack_dpotrf", *arguments)
    kernel = b.build("cholesky")
    root = np.tril(np.random.default_rng(0).random((3, 3)) + 1)
    matrix, status = root @ root.T, np.full(1, 7, np.int32)
    address = compile_kernels([kernel])[0].address
    scratch = np.zeros(kernel.scratch_bytes, np.uint8)
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(address)(
        matrix.ctypes.data, status.ctypes.data, scratch.ctypes.data
    )
    assert status[0] == 0
    np.testing.assert_allclose(np.tril(matrix), root, rtol=1e-12)


def add_constant(value):
    x, y = k.Buffer("x", k.F32, 4), k.Buffer("y", k.F32, 4, "out")
    i = k.index_variable("i", 4)
    return k.Kernel("add", (x, y), (), k.loop(i, 4, k.store(y, i, k.add(k.load(x, i), value))))


def test_a_driver_calls_kernels_and_library_routines():
    first, second = compile_kernels([add_constant(1.0), add_constant(2.0)])
    source = f"""
declare void @{first.symbol}(ptr, ptr, ptr)
declare void @{second.symbol}(ptr, ptr, ptr)
declare void @tetrax_gemm_f32(ptr, ptr, ptr, i64, i64, i64, i64, i64, i64, i64, i64, i32)
define void @driver_test(ptr %x, ptr %t, ptr %y, ptr %scratch) {{
  call void @{first.symbol}(ptr %x, ptr %t, ptr %scratch)
  call void @{second.symbol}(ptr %t, ptr %x, ptr %scratch)
  call void @tetrax_gemm_f32(ptr %x, ptr %x, ptr %y, i64 2, i64 2, i64 2, i64 2, i64 1, i64 2,
    i64 1, i64 2, i32 0)
  ret void
}}
"""
    address = compile_driver(source, "driver_test").address
    x, t, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32), np.zeros(4, np.float32)
    scratch = np.zeros(4096, np.uint8)
    pointers = [a.ctypes.data for a in (x, t, y, scratch)]
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(address)(*pointers)
    matrix = np.arange(4, dtype=np.float32).reshape(2, 2) + 3
    np.testing.assert_array_equal(x, matrix.ravel())
    np.testing.assert_array_equal(y.reshape(2, 2), matrix @ matrix)


def test_a_forked_child_compiles():
    compile_kernels([add_constant(3.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of other libraries
        child = os.fork()
    if child == 0:
        try:
            compile_kernels([add_constant(4.0)])
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.fixture
def cache_folder(tmp_path):
    before = config.cache_dir
    config.update("cache_dir", str(tmp_path / "cache"))
    yield tmp_path / "cache"
    config.update("cache_dir", before)


def test_disk_cache(cache_folder):
    assert disk_cache.programs.read("key") is None
    disk_cache.programs.write("key", b"contents")
    assert disk_cache.programs.read("key") == b"contents"
    assert cache_folder.stat().st_mode & 0o777 == 0o700
    (cache_folder / "key").write_bytes((cache_folder / "key").read_bytes()[:-1] + b"?")
    assert disk_cache.programs.read("key") is None  # a damaged file is a miss, and is removed
    assert not (cache_folder / "key").exists()


def test_disk_cache_drops_the_oldest(cache_folder):
    for at in range(4):
        disk_cache.programs.write(f"key{at}", bytes(100))
        os.utime(cache_folder / f"key{at}", (at, at))
    disk_cache.sweep(cache_folder, 350)
    assert sorted(p.name for p in cache_folder.iterdir()) == ["key2", "key3"]


def test_an_unusable_cache_warns_once(tmp_path):
    (tmp_path / "file").write_text("in the way")
    before = config.cache_dir
    config.update("cache_dir", str(tmp_path / "file" / "cache"))
    try:
        with pytest.warns(UserWarning, match="not kept on disk"):
            disk_cache.programs.write("key", b"contents")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert disk_cache.programs.read("key") is None
    finally:
        config.update("cache_dir", before)


def test_worker_count_follows_the_setting():
    assert 1 <= threads.available_cores() <= os.cpu_count()
    before = config.num_threads
    config.update("num_threads", 3)
    try:
        assert threads.worker_count() == 3
    finally:
        config.update("num_threads", before)


def test_library_objects_belong_to_the_user_and_not_to_a_program(cache_folder, monkeypatch):
    """A fresh cache of programs does not make the library anew."""
    assert disk_cache.library.folder() != disk_cache.programs.folder()
    assert disk_cache.library.folder().name == "library"
    config.update("cache_dir", "off")
    assert disk_cache.library.folder() is None is disk_cache.programs.folder()
