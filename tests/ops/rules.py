"""Samples for every registered operation, and how results are compared."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes

import numpy as np
from tetrax import dtypes, lax, random, scipy
from tetrax.ir.types import ShapedArray
from tetrax.ops.base import REGISTRY, Elementwise

# Operations are registered when the modules that have them are read.
READ = (lax, random, scipy.linalg)
# Every dtype an elementwise operation declares is tested; these stand for their kinds' shapes too.
DTYPES = {
    "b": (np.bool_,),
    "i": (np.int8, np.int16, np.int32, np.int64, ml_dtypes.int4),
    "u": (np.uint8, np.uint16, np.uint32, np.uint64, ml_dtypes.uint4),
    "f": (np.float32, np.float64, ml_dtypes.bfloat16, np.float16),
    "c": (np.complex64, np.complex128),
}
SHAPES = ((3, 4), (), (0, 2), (33,))


@dataclass(frozen=True)
class Sample:
    """Operand types and parameters of one call."""

    name: str
    avals: tuple[ShapedArray, ...]
    params: tuple[tuple[str, Any], ...]

    @property
    def primitive(self) -> Any:
        return REGISTRY[self.name]

    @property
    def kwargs(self) -> dict[str, Any]:
        return dict(self.params)

    def __str__(self) -> str:
        types = ",".join(a.str_short(short_dtypes=True) for a in self.avals)
        return f"{self.name}({types})"


def samples(name: str) -> Iterator[Sample]:
    """The samples an operation brings, or the elementwise ones by its declared dtypes."""
    primitive = REGISTRY[name]
    if primitive.facts.samples is not None:
        for avals, params in primitive.facts.samples():
            yield Sample(name, tuple(avals), tuple(params.items()))
        return
    assert isinstance(primitive, Elementwise), (
        f"{name} has no samples: give it TestFacts(samples=…)"
    )
    params = _parameters(primitive)
    for kind in primitive.accepts:
        for i, dtype in enumerate(DTYPES.get(kind, ())):
            for shape in SHAPES if i == 0 else SHAPES[:1]:
                yield Sample(name, (ShapedArray(shape, dtype),) * primitive.arity, params)


def _parameters(primitive: Elementwise) -> tuple[tuple[str, Any], ...]:
    """`accuracy=None` where the operation has that parameter; `y=3` for integer_pow."""
    names = inspect.signature(primitive.scalar).parameters
    known = {"accuracy": None, "y": 3}
    return tuple((n, known[n]) for n in list(names)[primitive.arity :] if n in known)


def operands(sample: Sample, seed: int = 0) -> list[np.ndarray]:
    """Values inside the operation's domain, the same for a seed."""
    rng = np.random.default_rng(seed)
    facts = sample.primitive.facts
    values = []
    for i, aval in enumerate(sample.avals):
        domain = facts.domain
        low, high = domain[i % len(domain)] if isinstance(domain[0], tuple) else domain
        values.append(_values(rng, aval, low, high))
    return values


def _values(rng: Any, aval: ShapedArray, low: float, high: float) -> np.ndarray:
    dtype, shape = aval.dtype, aval.shape
    if isinstance(dtype, dtypes.ExtendedDType):
        return rng.integers(0, 2**63, shape, dtype=np.uint64)
    kind = dtypes.finfo(dtype) and "f" if dtypes.issubdtype(dtype, np.floating) else dtype.kind
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        return rng.integers(max(0, int(low)), int(high) + 1, shape).astype(dtype)
    if dtypes.issubdtype(dtype, np.integer):
        return rng.integers(int(low), int(high) + 1, shape).astype(dtype)
    if kind == "c":
        parts = rng.uniform(low, high, (2, *shape)) * 0.5
        return (parts[0] + 1j * parts[1]).astype(dtype)
    return rng.uniform(low, high, shape).astype(dtype)


def excluded(name: str, rule: str) -> str | None:
    """The reason why a rule of an operation is not tested, if there is one."""
    return dict(REGISTRY[name].facts.excluded).get(rule)


def assert_close(found: Any, expected: Any, ulp: int, what: str) -> None:
    """Equal for integers and bools; within `ulp` units in the last place (at the largest
    magnitude present, for sums of parts) for floats."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, (what, found.shape, expected.shape)
    assert found.dtype == expected.dtype, (what, found.dtype, expected.dtype)
    if not dtypes.issubdtype(found.dtype, np.inexact):
        np.testing.assert_array_equal(found, expected, err_msg=what)
        return
    eps = float(dtypes.finfo(found.dtype).eps)
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 1.0
    np.testing.assert_allclose(
        a, b, rtol=max(ulp, 1) * eps, atol=ulp * eps * scale * 0.5, err_msg=what
    )
