"""Creation, shape, join, split and slicing against real JAX."""

from __future__ import annotations

import ml_dtypes
import pytest
from tests.ops.jax_oracle import check, sample

import numpy as np
from tetrax import errors, lax

x34 = sample(3, 4)
CASES = {
    "iota": (lambda lax: lax.iota("int32", 5),),
    "iota_bf16": (lambda lax: lax.broadcasted_iota(ml_dtypes.bfloat16, (3, 4), 1),),
    "iota_complex": (lambda lax: lax.broadcasted_iota("complex64", (3, 0, 4), 2),),
    "full": (lambda lax: lax.full((2, 3), 2),),
    "full_dtype": (lambda lax: lax.full((2, 3), 2, "float32"),),
    "full_like": (lambda lax, x: lax.full_like(x, 7), x34),
    "full_traced": (lambda lax, v: lax.full((2, 3), v), np.float32(2.5)),
    "full_like_dtype": (lambda lax, x: lax.full_like(x, 7.5, "int8", (2,)), x34),
    "reshape": (lambda lax, x: lax.reshape(x, (2, 6)), x34),
    "reshape_dimensions": (lambda lax, x: lax.reshape(x, (2, 6), (1, 0)), x34),
    "squeeze": (lambda lax, x: lax.squeeze(x, (0, -1)), sample(1, 3, 1)),
    "expand_dims": (lambda lax, x: lax.expand_dims(x, (0, -1)), x34),
    "transpose": (lambda lax, x: lax.transpose(x, (2, 0, 1)), sample(2, 3, 4)),
    "broadcast": (lambda lax, x: lax.broadcast(x, (2, 1)), x34),
    "broadcast_in_dim": (lambda lax, x: lax.broadcast_in_dim(x, (3, 2, 4), (0, 2)), x34),
    "broadcast_unit": (lambda lax, x: lax.broadcast_in_dim(x, (3, 5), (0, 1)), sample(3, 1)),
    "broadcast_to_rank": (lambda lax, x: lax.broadcast_to_rank(x, 4), x34),
    "broadcast_like": (lambda lax, x: lax.broadcast_like(x, np.zeros((2, 3, 4))), x34),
    "rev": (lambda lax, x: lax.rev(x, (0, 1)), x34),
    "tile": (lambda lax, x: lax.tile(x, (2, 3)), x34),
    "tile_none": (lambda lax, x: lax.tile(x, (0, 3)), x34),
    "collapse": (lambda lax, x: lax.collapse(x, 1, 3), sample(2, 3, 4, 5)),
    "concatenate": (lambda lax, x, y: lax.concatenate([x, y, x], 0), x34, sample(2, 4)),
    "concatenate_last": (lambda lax, x, y: lax.concatenate([x, y], 1), x34, sample(3, 1)),
    "concatenate_large": (
        lambda lax, x, y: lax.concatenate([x, y], 1),
        sample(3, 300),
        sample(3, 33),
    ),
    "concatenate_complex": (
        lambda lax, x, y: lax.concatenate([x, y], 0),
        sample(600, dtype="complex64"),
        sample(7, dtype="complex64"),
    ),
    "pad": (lambda lax, x, v: lax.pad(x, v, [(1, 2, 0), (0, 1, 2)]), x34, np.float32(2)),
    "pad_negative": (
        lambda lax, x, v: lax.pad(x, v, [(-1, 2, 1), (-2, -1, 0)]),
        x34,
        np.float32(2),
    ),
    "pad_negative_interior": (
        lambda lax, x, v: lax.pad(x, v, [(-2, -3, 2)]),
        sample(7),
        np.float32(2),
    ),
    "pad_empty": (lambda lax, x, v: lax.pad(x, v, [(1, 2, 3)]), sample(0), np.float32(2)),
    "pad_int": (lambda lax, x: lax.pad(x, 3, [(1, 0, 1)]), sample(4, dtype="int32")),
    "slice": (lambda lax, x: lax.slice(x, (0, 1), (3, 4), (2, 2)), x34),
    "slice_in_dim": (lambda lax, x: lax.slice_in_dim(x, 1, -1, 2, 1), sample(3, 7)),
    "index_in_dim": (lambda lax, x: lax.index_in_dim(x, -1, 1, False), x34),
    "split": (lambda lax, x: lax.split(x, (1, 0, 3), 1), x34),
    "stack": (lambda lax, x, y: lax.stack([x, y], 1), x34, sample(3, 4, seed=3)),
    "unstack": (lambda lax, x: lax.unstack(x, 1), x34),
    "dynamic_slice": (
        lambda lax, x, i, j: lax.dynamic_slice(x, (i, j), (2, 2)),
        x34,
        np.int32(2),
        np.int32(-3),
    ),
    "dynamic_slice_u64": (
        lambda lax, x, i: lax.dynamic_slice(x, (i, i), (2, 2)),
        x34,
        np.uint8(200),
    ),
    "dynamic_index": (
        lambda lax, x, i: lax.dynamic_index_in_dim(x, i, 1, False),
        x34,
        np.int32(-2),
    ),
    "dynamic_update_slice": (
        lambda lax, x, y, i: lax.dynamic_update_slice(x, y, (i, 1)),
        x34,
        sample(2, 3, seed=5),
        np.int32(7),
    ),
    "dynamic_update_complex": (
        lambda lax, x, y, i: lax.dynamic_update_slice(x, y, (i,)),
        sample(9, dtype="complex64"),
        sample(2, dtype="complex64", seed=5),
        np.int32(3),
    ),
    "dynamic_update_index": (
        lambda lax, x, y, i: lax.dynamic_update_index_in_dim(x, y, i, 1),
        x34,
        sample(3, seed=5),
        np.int32(1),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_as_jax(name: str) -> None:
    case, *args = CASES[name]
    check(case, *args, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lax.concatenate([x34, sample(3, 5)], 0), "differ in dimensions"),
        (lambda: lax.concatenate([x34, sample(3, 4, dtype="int32")], 0), "equal dtypes"),
        (lambda: lax.pad(x34, 0.0, [(0, 0, -1)] * 2), "nonnegative"),
        (lambda: lax.pad(x34, 0.0, [(-9, 0, 0)] * 2), "not at least 0"),
        (lambda: lax.slice(x34, (0, 2), (3, 1)), "limit_indices"),
        (lambda: lax.squeeze(x34, (0,)), "size not equal to one"),
        (lambda: lax.reshape(x34, (5,)), "total size must be unchanged"),
        (lambda: lax.dynamic_slice(x34, (0, 0), (4, 1)), "slice_sizes"),
        (lambda: lax.full((2,), x34), "scalar fill_value"),
        (lambda: lax.split(x34, (1, 1), 0), "add up"),
    ],
)
def test_errors(call, message: str) -> None:
    with pytest.raises(errors.ShapeError, match=message):
        call()
