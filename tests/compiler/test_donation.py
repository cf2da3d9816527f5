"""Results in the memory of donated operands: where it is done, and that values never change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import numpy as np
import tetrax
import tetrax.numpy as tnp
from tetrax import errors
from tetrax.compiler.pipeline import lower
from tetrax.compiler.steps import CopyStep

ROWS, COLUMNS = 400, 501  # large enough for memory of its own, and no multiple of a vector


def _array(seed: int) -> tetrax.Array:
    """A result of a compiled call, which owns its memory alone."""
    values = np.random.default_rng(seed).normal(size=(ROWS, COLUMNS)).astype(np.float32)
    return tetrax.jit(lambda x: x * 1)(values)


def _sources(f: Callable[..., Any], donated: tuple[int, ...], *args: Any) -> list[int | None]:
    return lower(tetrax.jit(f).trace(*args).jaxpr, donated).sources


def adam(p: Any, m: Any, v: Any, g: Any) -> Any:
    m = 0.9 * m + 0.1 * g
    v = 0.99 * v + 0.01 * g * g
    return p - 0.1 * m / (tnp.sqrt(v) + 1e-3), m, v


def swapped(a: Any, b: Any) -> Any:
    return b + 1, a - b


PROGRAMS = {
    "adam": (adam, (0, 1, 2), [0, 1, 2]),
    # the first result cannot overwrite `a`, which the second reads, nor the second `b`
    "each reads the other": (lambda a, b: (a + b, a - b), (0, 1), [0, None]),
    "crosswise": (swapped, (0, 1), [1, 0]),
    "transposed": (lambda a: a[:400, :400].T + a[:400, :400], (0,), [None]),
    "neighbours": (lambda a: tnp.roll(a, 1, 0) + a, (0,), [None]),
    "product": (lambda a, b: (a @ b.T) @ b, (0, 1), [0]),
    "unchanged": (lambda a, b: (a, a + b), (0, 1), [0, 1]),
    "reduced first": (lambda a: (a / a.sum(0)) * 2, (0,), [0]),
    "updated": (lambda a: a.at[3].set(1.0), (0,), [0]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_without_donation(name: str) -> None:
    f, donated, _ = PROGRAMS[name]
    count = f.__code__.co_argcount
    expected = tetrax.jit(f)(*map(_array, range(count)))
    for _ in range(2):
        results = tetrax.jit(f, donate_argnums=donated)(*map(_array, range(count)))
        for result, wanted in zip(
            tetrax.tree.leaves(results), tetrax.tree.leaves(expected), strict=True
        ):
            np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("name", ["adam", "each reads the other", "neighbours", "updated"])
def test_which_operand_gives_its_memory(name: str) -> None:
    f, donated, sources = PROGRAMS[name]
    args = list(map(_array, range(f.__code__.co_argcount)))
    assert _sources(f, donated, *args) == sources
    assert _sources(f, (), *args) == [None] * len(sources)


def test_memory_is_taken_over() -> None:
    x = _array(0)
    address = x.address
    y = tetrax.jit(lambda v: v * 2, donate_argnums=0)(x)
    assert y.address == address
    assert x.is_deleted()
    with pytest.raises(errors.DonatedBufferError):
        x + 1


def test_an_update_of_a_donated_array_copies_nothing() -> None:
    f = lambda a: a.at[2, 3].add(1.0)
    assert not any(
        isinstance(s, CopyStep) for s in lower(tetrax.jit(f).trace(_array(0)).jaxpr, (0,)).steps
    )


def test_memory_that_others_see_is_left_alone() -> None:
    x = _array(0)
    seen = np.asarray(x)
    before = seen.copy()
    y = tetrax.jit(lambda v: v * 2, donate_argnums=0)(x)
    np.testing.assert_array_equal(seen, before)
    np.testing.assert_array_equal(y, before * 2)


def test_an_array_that_is_passed_twice() -> None:
    f = tetrax.jit(lambda a, b: (a + 1, b * 2 + a), donate_argnums=0)
    x = _array(0)
    values = np.asarray(x).copy()
    del x
    x = tetrax.jit(lambda v: v * 1)(values)
    first, second = f(x, x)
    np.testing.assert_array_equal(first, values + 1)
    np.testing.assert_array_equal(second, values * 2 + values)


def test_compiled_ahead_of_time() -> None:
    x = _array(0)
    values, address = np.array(x).copy(), x.address
    x = tetrax.jit(lambda v: v * 1)(values)
    address = x.address
    compiled = tetrax.jit(lambda v: v + 3, donate_argnums=0).lower(x).compile()
    y = compiled(x)
    assert (y.address, x.is_deleted()) == (address, True)
    np.testing.assert_array_equal(y, values + 3)


def test_an_operand_is_used_up_when_the_call_fails() -> None:
    def fail(x: Any) -> Any:
        raise ValueError("no")

    def f(x: Any) -> Any:
        y = x + 1
        return tetrax.pure_callback(fail, tetrax.ShapeDtypeStruct((), np.float32), y[0, 0]) + y

    x = _array(0)
    with pytest.raises(Exception, match="no"):
        tetrax.jit(f, donate_argnums=0)(x)
    assert x.is_deleted()
