"""Linking object code without LLVM: references of every kind, freeing, and what LLVM must do."""

from __future__ import annotations

import ctypes
import gc
import random

import pytest

from tetrax.runtime import code_memory, elf, llvm

SOURCE = """
@table = private constant [4 x double] [double 1.0, double 2.0, double 4.0, double 8.0]
@counter = internal global i64 0
@shared = global i64 40
@pointer = global ptr @shared
declare double @cos(double)
declare i64 @given(i64)

define double @NAME_look(i64 %i) {
  %p = getelementptr double, ptr @table, i64 %i
  %x = load double, ptr %p
  %y = call double @cos(double %x)
  ret double %y
}
define i64 @NAME_count() {
  %old = load i64, ptr @counter
  %new = add i64 %old, 1
  store i64 %new, ptr @counter
  ret i64 %new
}
define i64 @NAME_call(i64 %x) {
  %y = call i64 @given(i64 %x)
  ret i64 %y
}
define ptr @NAME_imported() {
  ret ptr @given
}
define i64 @NAME_shared() {
  %p = load ptr, ptr @pointer
  %x = load i64, ptr %p
  ret i64 %x
}
"""
THREAD_LOCAL = """
@mine = internal thread_local global i64 5
define i64 @NAME_mine() {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  %x = load i64, ptr %p
  ret i64 %x
}
declare ptr @llvm.threadlocal.address.p0(ptr)
"""
NAMES = ("look", "count", "call", "imported", "shared")

takes_elf = pytest.mark.skipif(
    llvm.compile_object("define void @f() {\n ret void\n}")[:4] != b"\x7fELF"
    or llvm.host_architecture() != "x86_64",
    reason="another kind of object code, which LLVM links",
)


@ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
def add_one(x):
    return x + 1


ADD_ONE = ctypes.cast(add_one, ctypes.c_void_p).value


def check(addresses, prefix):
    def function(name, result, *arguments):
        return ctypes.CFUNCTYPE(result, *arguments)(addresses[f"{prefix}_{name}"])

    number = ctypes.c_int64
    look = function("look", ctypes.c_double, number)
    assert [round(look(i), 12) for i in range(4)] == [
        0.540302305868,
        -0.416146836547,
        -0.653643620864,
        -0.145500033809,
    ]
    count = function("count", number)
    assert [count(), count()] == [1, 2]
    assert function("call", number, number)(41) == 42
    assert function("imported", ctypes.c_void_p)() == ADD_ONE
    assert function("shared", number)() == 40


@takes_elf
def test_references_of_every_kind():
    code = llvm.compile_object(SOURCE.replace("NAME", "here"))
    symbols = [f"here_{name}" for name in NAMES]
    addresses, owner = llvm._link_here(code, symbols, {"given": ADD_ONE})
    assert isinstance(owner, code_memory.Code)
    assert owner.nbytes < 2048
    check(addresses, "here")


def test_llvm_links_the_same():
    code = llvm.compile_object(SOURCE.replace("NAME", "there"))
    symbols = [f"there_{name}" for name in NAMES]
    linker = llvm.Linker()
    check(linker.link("there", code, symbols, {"given": ADD_ONE}), "there")


@takes_elf
def test_what_is_not_supported_is_left_to_llvm():
    code = llvm.compile_object(THREAD_LOCAL.replace("NAME", "local"))
    with pytest.raises(elf.Unsupported):
        llvm._link_here(code, ["local_mine"], {})
    with pytest.raises(elf.Unsupported):
        elf.Object(b"\xcf\xfa\xed\xfe" + bytes(100))
    with pytest.raises(elf.Unsupported, match="no_such_function"):
        source = "declare void @no_such_function()\ndefine void @f() {\n"
        source += "  call void @no_such_function()\n  ret void\n}\n"
        llvm._link_here(llvm.compile_object(source), ["f"], {})


def test_without_executable_memory(monkeypatch):
    monkeypatch.setattr(code_memory, "allocate", lambda nbytes: None)
    source = SOURCE.replace("NAME", "fallback")
    engine = llvm.Engine()
    engine.define("given", ADD_ONE)
    symbols = [f"fallback_{name}" for name in NAMES]
    addresses, owner = engine.link_temporary(llvm.compile_object(source), symbols, source)
    check(addresses, "fallback")
    del owner


@takes_elf
def test_temporary_code_goes_with_its_owner():
    source = SOURCE.replace("NAME", "brief")
    symbols = [f"brief_{name}" for name in NAMES]
    engine = llvm.Engine()
    engine.define("given", ADD_ONE)
    gc.collect()
    before = code_memory.used_bytes()
    code = llvm.compile_object(source)
    addresses, owner = engine.link_temporary(code, symbols, source)
    assert engine.held("brief_count") == (addresses["brief_count"], owner)
    assert engine.known("brief_count") is None
    assert code_memory.used_bytes() == before + owner.nbytes
    del owner
    gc.collect()
    assert engine.held("brief_count") is None
    assert code_memory.used_bytes() == before
    # Linked again, for ever this time, though temporary code was there before.
    check(engine.link(code, symbols, source), "brief")
    gc.collect()
    assert engine.known("brief_count") is not None
    assert code_memory.used_bytes() > before


@takes_elf
def test_a_thousand_small_objects_take_little():
    gc.collect()
    before, owners = code_memory.used_bytes(), []
    for i in range(100):
        source = f"define i64 @small_{i}(i64 %x) {{\n  %y = add i64 %x, {i}\n  ret i64 %y\n}}\n"
        code = llvm.compile_object(source)
        owners += [llvm._link_here(code, [f"small_{i}"], {}) for _ in range(10)]
    assert code_memory.used_bytes() - before <= 1000 * 64
    for i, (addresses, _) in enumerate(owners[::10]):
        add = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(addresses[f"small_{i}"])
        assert add(1) == 1 + i


def test_pieces_never_overlap_and_join_again():
    region, chosen, taken = code_memory.Region(1 << 16), random.Random(0), {}
    for _ in range(2000):
        if taken and chosen.random() < 0.5:
            offset = chosen.choice(list(taken))
            region.give(offset, taken.pop(offset))
        else:
            size = 64 * chosen.randint(1, 40)
            offset = region.take(size)
            if offset is not None:
                for other, length in taken.items():
                    assert offset + size <= other or other + length <= offset
                taken[offset] = size
    for offset, size in taken.items():
        region.give(offset, size)
    assert (region.offsets, region.sizes) == ([0], [1 << 16])


@takes_elf
def test_callers_keep_the_copy_that_they_call():
    kernel = "define i64 @copied(i64 %x) {\n  %y = add i64 %x, 5\n  ret i64 %y\n}\n"
    caller = "declare i64 @copied(i64)\ndefine i64 @caller(i64 %x) {\n"
    caller += "  %y = call i64 @copied(i64 %x)\n  ret i64 %y\n}\n"
    engine = llvm.Engine()
    code = llvm.compile_object(kernel)
    # As two threads do that compile the same at once; the second copy is the one that is known.
    first, owner = engine.link_temporary(code, ["copied"], kernel)
    _, other = engine.link_temporary(code, ["copied"], kernel)
    using = {"copied": (first["copied"], owner)}
    found, whole = engine.link_temporary(llvm.compile_object(caller), ["caller"], caller, using)
    del owner, other, using
    gc.collect()
    rubbish = [code_memory.allocate(64) for _ in range(50)]
    for piece in rubbish:
        assert piece is not None
        piece.write(b"\xcc" * 64)  # traps
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(found["caller"])(1) == 6
    assert engine.held("copied") is None
    del whole
