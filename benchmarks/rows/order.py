"""Sorting, searching and cumulative operations."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.row import Case, Row
from benchmarks.rows.common import Array, generator, integers, normal, size_in_bytes, uniform

_TYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32}


def _numbers(n: int, kind: str) -> Array:
    if kind == "i32":
        return generator().integers(-(2**31), 2**31, n).astype(np.int32)
    return normal(n, dtype=_TYPES[kind])


def sort(n: int, kind: str) -> Case:
    """A vector sorted."""
    x = _numbers(n, kind)
    return Case(
        program=lambda lib: lib.numpy.sort,
        inputs=(x,),
        numpy=np.sort,
        torch=lambda torch: lambda x: torch.sort(x).values,
        bytes=2 * size_in_bytes(x),
        tolerance=0,
        x64=kind == "f64",
    )


def argsort(n: int, kind: str) -> Case:
    """The order of a vector's elements."""
    x = _numbers(n, kind)
    return Case(
        program=lambda lib: lib.numpy.argsort,
        inputs=(x,),
        numpy=np.argsort,
        torch=lambda torch: torch.argsort,
        bytes=size_in_bytes(x) + 4 * n,
        tolerance=0,
        compare=lambda order: x[order],  # equal elements may stand in any order
        x64=kind == "f64",
    )


def top_k(rows: int, columns: int, k: int) -> Case:
    """The largest elements of every row."""
    x = normal(rows, columns)

    def in_numpy(x: Any) -> Any:
        chosen = np.argpartition(x, columns - k, axis=-1)[:, columns - k :]
        values = np.take_along_axis(x, chosen, axis=-1)
        order = np.argsort(-values, axis=-1)
        return np.take_along_axis(values, order, -1), np.take_along_axis(chosen, order, -1)

    return Case(
        program=lambda lib: lambda x: lib.lax.top_k(x, k),
        inputs=(x,),
        numpy=in_numpy,
        torch=lambda torch: lambda x: torch.topk(x, k),
        bytes=size_in_bytes(x),
        tolerance=0,
        compare=lambda values, _: values,
    )


def unique(n: int, values: int) -> Case:
    """The distinct values of a vector of integers."""
    x = integers(n, below=values)
    size = len(np.unique(x))
    return Case(
        program=lambda lib: lambda x: lib.numpy.unique(x, size=size),
        inputs=(x,),
        numpy=np.unique,
        torch=lambda torch: torch.unique,
        bytes=size_in_bytes(x),
        tolerance=0,
        torch_compile=False,  # the size of the result depends on the values
    )


def searchsorted(n: int, queries: int) -> Case:
    """Where numbers belong in a sorted vector."""
    edges, x = np.sort(normal(n)), uniform(queries, low=-3, high=3)
    return Case(
        program=lambda lib: lib.numpy.searchsorted,
        inputs=(edges, x),
        numpy=np.searchsorted,
        torch=lambda torch: torch.searchsorted,
        bytes=2 * size_in_bytes(x),
        tolerance=0,
    )


def cumsum(n: int) -> Case:
    """Running sums."""
    x = normal(n)
    return Case(
        program=lambda lib: lib.numpy.cumsum,
        inputs=(x,),
        numpy=np.cumsum,
        torch=lambda torch: lambda x: torch.cumsum(x, 0),
        bytes=2 * size_in_bytes(x),
        tolerance=1e-3,
    )


def cumprod(n: int) -> Case:
    """Running products of numbers close to one."""
    x = 1 + np.float32(1e-4) * normal(n)
    return Case(
        program=lambda lib: lib.numpy.cumprod,
        inputs=(x,),
        numpy=np.cumprod,
        torch=lambda torch: lambda x: torch.cumprod(x, 0),
        bytes=2 * size_in_bytes(x),
        tolerance=0.1,  # rounding errors of ten million products in different orders
    )


def cummax(n: int) -> Case:
    """Running maxima."""
    x = normal(n)
    return Case(
        program=lambda lib: lib.lax.cummax,
        inputs=(x,),
        numpy=np.maximum.accumulate,
        torch=lambda torch: lambda x: torch.cummax(x, 0).values,
        bytes=2 * size_in_bytes(x),
        tolerance=0,
    )


def median(n: int) -> Case:
    """The median of an odd number of elements."""
    x = normal(n)
    return Case(
        program=lambda lib: lib.numpy.median,
        inputs=(x,),
        numpy=np.median,
        torch=lambda torch: torch.median,
        bytes=size_in_bytes(x),
        tolerance=0,
    )


_FAMILY = "order"
_LONG, _SHORT = {"n": 10_000_000}, {"n": 1001}

ROWS = (
    *(
        Row(
            f"{name}_1m_{kind}",
            _FAMILY,
            make,
            {"n": 1_000_000, "kind": kind},
            {"n": 77, "kind": kind},
        )
        for name, make in (("sort", sort), ("argsort", argsort))
        for kind in _TYPES
    ),
    Row(
        "top_k",
        _FAMILY,
        top_k,
        {"rows": 256, "columns": 4096, "k": 32},
        {"rows": 3, "columns": 20, "k": 4},
    ),
    Row("unique_1m", _FAMILY, unique, {"n": 1_000_000, "values": 10_000}, {"n": 99, "values": 9}),
    Row(
        "searchsorted_1m",
        _FAMILY,
        searchsorted,
        {"n": 100_000, "queries": 1_000_000},
        {"n": 20, "queries": 50},
    ),
    Row("cumsum_10m", _FAMILY, cumsum, _LONG, _SHORT),
    Row("cumprod_10m", _FAMILY, cumprod, _LONG, _SHORT),
    Row("cummax_10m", _FAMILY, cummax, _LONG, _SHORT),
    Row("median_1m", _FAMILY, median, {"n": 1_000_001}, {"n": 101}),
)
