"""Evaluate one expression in `tetrax.numpy` and in `jax.numpy`, and compare the results."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

# Relative tolerance in units of the machine epsilon: both sides round, in different orders.
ULPS = 64
EPS = {
    "float16": 2**-10,
    "bfloat16": 2**-7,
    "float32": 2**-23,
    "float64": 2**-52,
    "complex64": 2**-23,
    "complex128": 2**-52,
}

ARRAYS: dict[str, np.ndarray] = {
    "f": np.array([[1.5, -2.0, 0.25], [3.0, 0.5, -0.75]], np.float32),
    "f1": np.array([0.5, -1.25, 2.0, 3.5], np.float32),
    "f0": np.array(1.75, np.float32),
    "pos": np.array([0.25, 0.5, 0.75, 0.9], np.float32),
    "big": np.array([1.5, 2.0, 7.0], np.float32),
    "nan": np.array([1.0, np.nan, 3.0, -np.inf, np.inf, 0.0, -0.0], np.float32),
    "somenan": np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]], np.float32),
    "h": np.array([1.5, 2.0, -3.0], np.float16),
    "c": np.array([1 + 2j, -0.5j, 3 - 1j], np.complex64),
    "c2": np.array([[1 + 2j, -0.5j], [3 - 1j, 2.0]], np.complex64),
    "i": np.array([[3, -1, 2], [0, 5, -4]], np.int32),
    "i1": np.array([3, 1, 2, 1], np.int32),
    "k": np.array([1, 2, 3], np.int32),
    "i8": np.array([100, 100, -3], np.int8),
    "u8": np.array([200, 100, 3], np.uint8),
    "u": np.array([5, 0, 7], np.uint32),
    "b": np.array([True, False, True]),
    "b2": np.array([[True, False], [True, True]]),
    "e": np.zeros((0,), np.float32),
    "e2": np.zeros((2, 0), np.float32),
    "m": np.array([[4.0, 1.0], [2.0, 3.0]], np.float32),
    "spd": np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]], np.float32),
    "mm": np.arange(12, dtype=np.float32).reshape(2, 2, 3) / 4 - 1,
    "r": np.array([[2.0, 1.0], [1.0, 3.0], [0.5, -1.0]], np.float32),
    "t3": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "it3": np.arange(24, dtype=np.int32).reshape(2, 3, 4),
}


def environment(namespace: Any, lax: Any) -> dict[str, Any]:
    """Return the names that an expression may use, made by one of the two libraries."""
    made = {name: namespace.asarray(value) for name, value in ARRAYS.items()}
    made["w"] = namespace.asarray(2)  # weakly typed integer
    made["wf"] = namespace.asarray(2.5)  # weakly typed float
    return {"jnp": namespace, "np": np, "lax": lax, **made}


def evaluate(expression: str, names: dict[str, Any]) -> Any:
    """Return the value of an expression, or the exception it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return eval(expression, dict(names))
        except Exception as error:
            return error


def leaves(x: Any) -> list[Any]:
    """Return the parts of a result."""
    if isinstance(x, (tuple, list)):
        return [leaf for part in x for leaf in leaves(part)]
    return [x]


def difference(
    ours: Any, theirs: Any, is_array: Callable[[Any], bool], values: bool = True
) -> str | None:
    """Say how two results differ, or return None."""
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        return _error_difference(ours, theirs)
    left, right = leaves(ours), leaves(theirs)
    if len(left) != len(right):
        return f"{len(left)} results, not {len(right)}"
    for mine, other in zip(left, right, strict=True):
        problem = _leaf_difference(mine, other, is_array, values)
        if problem:
            return problem
    return None


def _error_difference(ours: Any, theirs: Any) -> str | None:
    if not isinstance(theirs, Exception):
        return f"raised {type(ours).__name__}: {ours}"
    if not isinstance(ours, Exception):
        return f"did not raise {type(theirs).__name__}: {theirs}"
    if type(ours).__name__ == type(theirs).__name__:
        return None
    builtin = next(kind for kind in type(theirs).__mro__ if kind.__module__ == "builtins")
    if isinstance(ours, builtin):
        return None
    return f"raised {type(ours).__name__}: {ours}; not {type(theirs).__name__}: {theirs}"


def _leaf_difference(
    mine: Any, other: Any, is_array: Callable[[Any], bool], values: bool
) -> str | None:
    if not hasattr(other, "weak_type"):
        if isinstance(other, (int, str, bool, float, np.dtype, type(None), slice)):
            return None if mine == other else f"{mine!r}, not {other!r}"
        return None
    if not is_array(mine):
        return f"{type(mine).__name__}, not an array"
    for what in ("shape", "dtype", "weak_type"):
        if getattr(mine, what) != getattr(other, what):
            return f"{what} {getattr(mine, what)}, not {getattr(other, what)}"
    return _value_difference(np.asarray(mine), np.asarray(other)) if values else None


def _value_difference(mine: np.ndarray, other: np.ndarray) -> str | None:
    eps = EPS.get(other.dtype.name)
    if eps is None:
        same = np.array_equal(mine, other)
    else:
        if other.dtype.kind not in "fc":
            mine, other = mine.astype(np.float64), other.astype(np.float64)
        scale = np.abs(other[np.isfinite(other)]).max(initial=0)
        same = np.allclose(
            mine, other, rtol=ULPS * eps, atol=8 * eps * float(scale), equal_nan=True
        )
    return None if same else f"{mine!r}, not {other!r}"
