"""Samples of even sizes, for operations whose own samples have none along some factor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.ops.rules import Sample

import numpy as np
from tetrax import lax
from tetrax.ir.types import ShapedArray
from tetrax.ops.base import REGISTRY
from tetrax.ops.random_bits import KEY

Row = tuple[list[ShapedArray], dict[str, Any]]


def f32(*shapes: tuple[int, ...]) -> list[ShapedArray]:
    return [ShapedArray(shape, np.dtype(np.float32)) for shape in shapes]


def i32(*shapes: tuple[int, ...]) -> list[ShapedArray]:
    return [ShapedArray(shape, np.dtype(np.int32)) for shape in shapes]


def keys(*shape: int) -> ShapedArray:
    return ShapedArray(shape, KEY)


def u32(*shape: int) -> ShapedArray:
    return ShapedArray(shape, np.dtype(np.uint32))


_CUMULATIVE: list[Row] = [
    (f32((4, 3, 6)), {"axis": 1, "reverse": False}),
    (f32((4, 6)), {"axis": 0, "reverse": True}),
]
_WINDOWS = {
    "window_dimensions": (1, 2, 3, 1),
    "window_strides": (1, 2, 1, 1),
    "padding": ((0, 0), (0, 0), (1, 1), (0, 0)),
    "base_dilation": (1, 1, 1, 1),
    "window_dilation": (1, 1, 1, 1),
}
_IMAGES = (2, 4, 5, 6)
_PLAIN = {key: value for key, value in _WINDOWS.items() if not key.endswith("dilation")}
_REDUCED: list[Row] = [(f32((4, 6)), {"axes": (0,)})]
_BITS = {"shape": (4, 6), "partitionable": True}


def _indexed(*rest: tuple[int, ...]) -> list[ShapedArray]:
    return [*f32((7, 4)), *i32((6, 1)), *f32(*rest)]


def _convolutions() -> list[Row]:
    _, params = REGISTRY["conv_general_dilated"].facts.samples()[0]
    grouped = {**params, "feature_group_count": 2}
    batches = {**params, "batch_group_count": 2}
    return [
        (f32((4, 6, 5, 6), (8, 6, 2, 3)), params),
        (f32((4, 6, 5, 6), (8, 3, 2, 3)), grouped),
        (f32((4, 6, 5, 6), (8, 6, 2, 3)), batches),
    ]


def _scatters(windows: dict[str, Any]) -> list[Row]:
    columns = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    batched = lax.ScatterDimensionNumbers((2,), (1,), (1,), (0,), (0,))
    return [
        (_indexed((6, 4)), {**windows, "dimension_numbers": columns}),
        (
            [*f32((4, 6, 2)), *i32((4, 2, 1)), *f32((4, 2, 2))],
            {**windows, "dimension_numbers": batched},
        ),
    ]


def _more() -> dict[str, list[Row]]:
    """Made when asked for: some of it is taken from the operations' own samples."""
    found: dict[str, list[Row]] = {
        "argmax": [(f32((4, 5, 6)), {"axes": (1,), "index_dtype": np.dtype(np.int32)})],
        "cholesky_update": [(f32((2, 3, 3), (2, 3)), {})],
        "concatenate": [(f32((3, 4), (5, 4)), {"dimension": 0})],
        "conv_general_dilated": _convolutions(),
        "dynamic_slice": [([*f32((6, 7, 4)), *i32((), (), ())], {"slice_sizes": (6, 3, 4)})],
        "dynamic_update_slice": [([*f32((6, 7, 4), (6, 3, 4)), *i32((), (), ())], {})],
        "geqp3": [([*f32((2, 3, 3)), *i32((2, 3))], {})],
        "householder_product": [(f32((2, 3, 3), (2, 3)), {})],
        "iota": [
            ([], {"dtype": np.dtype(dtype), "shape": (4, 6), "dimension": axis, "sharding": None})
            for dtype, axis in (("int32", 0), ("float32", 1), ("complex64", 1), ("uint8", 0))
        ],
        "lu_pivots_to_permutation": [(i32((2, 3)), {"permutation_size": 4})],
        "name": [(f32((4, 3)), {"name": "block"})],
        "optimization_barrier": [(f32((4, 3), (2,)), {})],
        "ormqr": [(f32((2, 3, 3), (2, 3), (2, 3, 4)), {"left": True, "transpose": False})],
        "pad": [(f32((3, 4), ()), {"padding_config": ((1, 2, 1), (0, 0, 0))})],
        "random_bits": [
            ([keys(*shape)], {**_BITS, "bit_width": width})
            for shape, width in (((), 32), ((2,), 64), ((), 8), ((4,), 16))
        ],
        "random_clone": [([keys(4)], {})],
        "random_fold_in": [([keys(4), u32(4)], {})],
        "random_seed": [(i32((4,)), {"impl": "threefry2x32"})],
        "random_split": [([keys(2)], _BITS), ([keys()], _BITS)],
        "random_unwrap": [([keys(4)], {})],
        "random_wrap": [([u32(4, 2)], {"impl": "threefry2x32"})],
        "reduce_prod": _REDUCED,
        "reshape": [
            (f32((4, 6)), {"new_sizes": sizes, "dimensions": None, "sharding": None})
            for sizes in ((24,), (2, 2, 6), (4, 2, 3), (8, 3))
        ],
        "rev": [(f32((4, 3, 6)), {"dimensions": (1,)})],
        "slice": [
            (
                f32((4, 7, 6)),
                {"start_indices": (0, 1, 0), "limit_indices": (4, 6, 6), "strides": strides},
            )
            for strides in (None, (1, 2, 1))
        ],
        "sort": [
            (f32((4, 5, 2), (4, 5, 2)), {"dimension": 1, "is_stable": True, "num_keys": 2}),
        ],
        "squeeze": [(f32((4, 1, 6)), {"dimensions": (1,)})],
        "stack": [(f32((4, 6), (4, 6), (4, 6)), {"axis": 1})],
        "split": [(f32((4, 7, 6)), {"sizes": (3, 4), "axis": 1})],
        "threefry2x32": [([u32(4)] * 4, {})],
        "tile": [(f32((4, 3)), {"reps": (1, 2)}), (f32((4, 3)), {"reps": (6, 1)})],
        "top_k": [(f32((4, 5, 6)), {"k": 3, "axis": 1})],
        "unstack": [(f32((4, 3, 6)), {"axis": 1})],
        "linear_recurrence": [(f32((4, 3), (4, 3)), {"axis": 1, "reverse": True})],
        "reduce_window_sum": [(f32(_IMAGES), _WINDOWS)],
        "select_and_gather_add": [(f32(_IMAGES, _IMAGES), {"select_prim": None, **_WINDOWS})],
        "select_and_scatter_add": [(f32((2, 2, 5, 6), _IMAGES), _PLAIN)],
    }
    found["argmin"] = found["argmax"]
    found["reduce_window_max"] = found["reduce_window_min"] = found["reduce_window_sum"]
    for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
        found[name] = _CUMULATIVE
    for name in ("select_and_gather_add", "select_and_scatter_add"):
        _, own = REGISTRY[name].facts.samples()[0]
        found[name] = [
            (avals, {**row, "select_prim": own["select_prim"]}) for avals, row in found[name]
        ]
    for name in (
        "scatter",
        "scatter-add",
        "scatter-sub",
        "scatter-mul",
        "scatter-min",
        "scatter-max",
    ):
        found[name] = _scatters(REGISTRY[name].facts.samples()[0][1])
    for name in ("eig", "hessenberg", "schur", "symmetric_product", "tridiagonal"):
        avals, own = REGISTRY[name].facts.samples()[0]
        found[name] = [([a.update(shape=(2, *a.shape)) for a in avals], own)]
    return found


_MORE: dict[str, list[Row]] = {}


def more_samples(name: str) -> Iterator[Sample]:
    if not _MORE:
        _MORE.update(_more())
    for avals, params in _MORE.get(name, ()):
        yield Sample(name, tuple(avals), tuple(params.items()))
