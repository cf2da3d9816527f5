"""Runs a function on one device and on several, and compares."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.devices.layouts import P, mesh_of

import numpy as np
import tetrax
from tetrax import tree
from tetrax.sharding import Mesh, NamedSharding

LINE = mesh_of(range(8), "x")
GRID = mesh_of(np.arange(8).reshape(2, 4), "xy")


def is_spec(value: object) -> bool:
    return value is None or isinstance(value, P)


def placed(args: Any, specs: Any, mesh: Mesh = LINE) -> Any:
    """The tree of arrays laid out as the tree of specs, a prefix of it, says."""
    leaves = tree.flatten(specs, is_leaf=is_spec)[0]
    parts = tree.structure(specs, is_leaf=is_spec).flatten_up_to(args)

    def put(part: Any, spec: Any) -> Any:
        sharding = NamedSharding(mesh, P() if spec is None else spec)
        return tree.map(lambda x: tetrax.device_put(x, sharding), part)

    found = [put(*pair) for pair in zip(parts, leaves, strict=True)]
    return tree.unflatten(tree.structure(specs, is_leaf=is_spec), found)


def difference(found: Any, expected: Any) -> float:
    """The largest difference of leaves, each relative to the largest magnitude in it."""
    worst = 0.0
    for a, b in zip(tree.leaves(found), tree.leaves(expected), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype, (a, b)
        if not a.size:
            continue
        wide = np.complex128 if b.dtype.kind == "c" else np.float64
        a, b = np.asarray(a).astype(wide), np.asarray(b).astype(wide)
        np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b))
        scale = max(float(np.abs(b).max()), 1e-30)
        worst = max(worst, float(np.abs(a - b).max()) / scale)
    return worst


def check(
    function: Any,
    args: tuple[Any, ...],
    specs: Any,
    mesh: Mesh = LINE,
    collectives: dict[str, int] | None = None,
    tolerance: float = 1e-6,
    **options: Any,
) -> Any:
    """The results on several devices, which are those of one; `collectives` counts what it took.

    Sums of parts are in another order than sums of all, which changes a few last bits: 1e-6 of the
    largest element is eight units in the last place of float32.
    """
    expected = tetrax.jit(function)(*args)
    there = placed(args, specs, mesh)
    jitted = tetrax.jit(function, **options)
    report = jitted.lower(*there).sharding_report()
    found = jitted(*there)
    assert difference(found, expected) <= tolerance
    if collectives is not None:
        assert Counter(move.kind for move in report.moves) == collectives, str(report)
    return found


def specs_of(found: Any) -> list[Any]:
    return [x.sharding.spec for x in tree.leaves(found)]
