"""Drivers as machine code do what those that LLVM makes do, and what NumPy says."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from typing import Any

import pytest

import numpy as np
import tetrax
import tetrax.numpy as tnp
from tetrax import lax
from tetrax.compiler import pipeline
from tetrax.compiler.cpu.machine_code import R11, R12, RAX, RCX, RDI, RDX, RSI, MachineCode
from tetrax.runtime import code_memory

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or sys.platform == "win32",
    reason="drivers are written for x86-64 alone",
)

MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4) / 7


def _sorted_rows(x: Any) -> Any:
    # a sort needs memory of its own, so this is a loop of the driver
    def turn(carry: Any, row: Any) -> tuple[Any, Any]:
        ordered = tnp.sort(row + carry)
        return ordered, (ordered * 2, carry.sum())

    return lax.scan(turn, tnp.zeros(x.shape[1], x.dtype), x)


def _backwards(x: Any) -> Any:
    def turn(carry: Any, row: Any) -> tuple[Any, Any]:
        ordered = tnp.sort(row - carry)
        return ordered, ordered

    return lax.scan(turn, tnp.ones(x.shape[1], x.dtype), x, reverse=True)


def _while(x: Any) -> Any:
    return lax.while_loop(
        lambda c: c[0].sum() < 100, lambda c: (tnp.sort(c[0] * 2), c[1] + 1), (x, 0)
    )


def _nested(x: Any) -> Any:
    def outer(carry: Any, row: Any) -> tuple[Any, Any]:
        inner = lax.fori_loop(0, 3, lambda i, c: tnp.sort(c * 0.5 + row), carry)
        return inner, lax.cond(inner[0] > 1, tnp.sort, lambda v: tnp.sort(-v), inner)

    return lax.scan(outer, x[0], x)


def _switch(x: Any) -> Any:
    def chosen(i: int) -> Any:
        branches = [tnp.sort, lambda v: tnp.sort(-v), lambda v: tnp.argsort(v).astype(v.dtype)]
        return lax.switch(tnp.int32(i) + x[0, 0].astype(tnp.int32), branches, x[1])

    return [chosen(i) for i in (-5, 0, 1, 2, 9)]


def _many_results(x: Any) -> Any:
    return [tnp.sort(x * i, axis=0) + tnp.sum(x) for i in range(20)]


def _on_the_host(x: Any) -> Any:
    shape = tetrax.ShapeDtypeStruct(x.shape, x.dtype)
    return tetrax.pure_callback(lambda v: np.cumsum(v, axis=1), shape, tnp.sort(x)) + 1


PROGRAMS = (
    _sorted_rows,
    _backwards,
    _while,
    _nested,
    _switch,
    _many_results,
    _on_the_host,
    lambda x: (x, x[0, 0], x[:, ::-1]),
    lambda x: x @ x.T + tnp.linalg.cholesky(x @ x.T + 9 * tnp.eye(3)),
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_like_the_driver_of_llvm(
    program: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tetrax.jit(program)(MATRIX)
    monkeypatch.setattr(pipeline, "assembled_driver", lambda *_: None)
    by_llvm = tetrax.jit(lambda x: program(x))(MATRIX)
    for a, b in zip(tetrax.tree.leaves(mine), tetrax.tree.leaves(by_llvm), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_what_it_computes() -> None:
    (last, (doubled, sums)), carry = tetrax.jit(_sorted_rows)(MATRIX), np.zeros(4, np.float32)
    for row, two, total in zip(MATRIX, doubled, sums, strict=True):
        assert total == np.float32(carry.sum())
        carry = np.sort(row + carry)
        np.testing.assert_array_equal(np.asarray(two), carry * 2)
    np.testing.assert_array_equal(np.asarray(last), carry)


def test_an_exception_of_the_host_ends_the_call() -> None:
    def fail(_: np.ndarray) -> np.ndarray:
        raise RuntimeError("not today")

    shape = tetrax.ShapeDtypeStruct((3, 4), np.float32)
    function = tetrax.jit(lambda x: tetrax.pure_callback(fail, shape, x) + 1)
    with pytest.raises(Exception, match="not today"):
        tetrax.block_until_ready(function(MATRIX))


# -- single instructions ---------------------------------------------------------------------------


def _run(write: Callable[[MachineCode], None], *numbers: int) -> int:
    code = MachineCode()
    write(code)
    code.ret()
    memory = code_memory.allocate(len(code.finish()))
    assert memory is not None
    memory.write(code.finish())
    kinds = [ctypes.c_int64] * len(numbers)
    return ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(memory.address)(*numbers)


@pytest.mark.parametrize("value", [0, 1, -1, 2**31 - 1, -(2**31), 2**31, -(2**40), 2**62])
def test_numbers_and_offsets(value: int) -> None:
    assert _run(lambda code: code.number(RAX, value)) == value
    assert _run(lambda code: code.address(RAX, RDI, value), 5) == value + 5

    def through_others(code: MachineCode) -> None:
        code.push(R12)
        code.move(R12, RDI)
        code.number(R11, value)
        code.add(R11, R12)
        code.move(RAX, R11)
        code.pop(R12)

    assert _run(through_others, 7) == value + 7


@pytest.mark.parametrize("factor", [0, 3, -4, 2**33])
def test_products_from_memory(factor: int) -> None:
    word = np.array([21], np.int64)

    def write(code: MachineCode) -> None:
        code.product(R11, RDI, 0, factor)
        code.increment(RDI, 0)
        code.subtract(R11, RDI, 0)
        code.move(RAX, R11)

    assert _run(write, word.ctypes.data) == 21 * factor - 22
    assert word[0] == 22


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_copies_touch_no_neighbours(size: int) -> None:
    source, target = np.arange(1, 33, dtype=np.uint8), np.zeros(32, np.uint8)
    places = source.ctypes.data, target.ctypes.data
    _run(lambda code: code.copy(RCX, size, RDI, RSI, 5), *places)
    expected = np.zeros(32, np.uint8)
    expected[5 : 5 + size] = source[5 : 5 + size]
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize(
    "condition, holds",
    [("equal", (0, 1, 0)), ("not equal", (1, 0, 1)), ("less or equal", (1, 1, 0))],
)
def test_jumps(condition: str, holds: tuple[int, int, int]) -> None:
    word = np.array([4], np.int64)

    def write(code: MachineCode) -> None:
        yes = code.label()
        code.number(RAX, 1)
        code.compare(RDX, RDI, 0)
        code.jump(yes, condition)
        code.number(RAX, 0)
        code.place(yes)

    # numbers before, at and after the one in memory
    found = tuple(_run(write, word.ctypes.data, 0, number) for number in (-3, 4, 5))
    assert found == holds
