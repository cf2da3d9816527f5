"""Convolutions against real JAX: layouts, strides, dilation, padding, groups, and gradients."""

from __future__ import annotations

import jax
import ml_dtypes
import pytest
from tests.ops.jax_oracle import check, sample

import numpy as np
import tetrax
from tetrax import lax

NHWC = ("NHWC", "HWIO", "NHWC")
# name: (lhs shape, rhs shape, arguments of conv_general_dilated)
CASES = {
    "plain": ((2, 3, 6, 5), (4, 3, 2, 3), ((1, 1), "VALID")),
    "same": ((2, 8, 7, 3), (3, 3, 3, 5), ((1, 1), "SAME", None, None, NHWC)),
    "one_channel": ((3, 8, 8, 1), (3, 3, 1, 8), ((1, 1), "SAME", None, None, NHWC)),
    "strided": ((2, 9, 8, 4), (3, 2, 4, 6), ((2, 3), "SAME", None, None, NHWC)),
    "pointwise": ((2, 6, 6, 8), (1, 1, 8, 16), ((1, 1), "VALID", None, None, NHWC)),
    "window_dilated": ((2, 9, 9, 4), (3, 3, 4, 4), ((1, 1), "SAME", None, (2, 2), NHWC)),
    "lhs_dilated": ((2, 5, 4, 4), (3, 3, 4, 4), ((1, 1), ((2, 1), (0, 2)), (2, 3), None, NHWC)),
    "negative_padding": ((2, 8, 8, 3), (3, 3, 3, 4),
                         ((1, 1), ((-1, 2), (1, -2)), None, None, NHWC)),
    "groups": ((2, 6, 6, 6), (3, 3, 2, 12), ((1, 1), "SAME", None, None, NHWC, 3)),
    "depthwise": ((2, 6, 6, 4), (3, 3, 1, 4), ((1, 1), "SAME", None, None, NHWC, 4)),
    "batch_groups": ((4, 6, 6, 5), (3, 3, 5, 8), ((1, 1), "SAME", None, None, NHWC, 1, 2)),
    "line": ((2, 9, 3), (3, 3, 4), ((2,), "SAME", None, None, ("NHC", "HIO", "NHC"))),
    "volume": ((1, 4, 5, 4, 2), (2, 2, 2, 2, 3), ((1, 2, 1), "SAME", None, None,
               ("NDHWC", "DHWIO", "NDHWC"))),
    "odd_layout": ((3, 8, 2, 7), (4, 3, 3, 3),
                   ((1, 1), "SAME", None, None, ("CHNW", "OWIH", "WCHN"))),
    "large": ((4, 3, 20, 20), (8, 3, 5, 5), ((1, 1), "SAME")),
    "no_window": ((2, 3, 2, 2), (4, 3, 3, 3), ((1, 1), "VALID")),
    "no_batch": ((0, 3, 4, 4), (4, 3, 3, 3), ((1, 1), "VALID")),
    "dense": ((5, 7), (6, 7), ((), ())),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_as_jax(name: str) -> None:
    lhs, rhs, args = CASES[name]
    case = lambda lax, x, y: lax.conv_general_dilated(x, y, *args)
    vmap = name in ("groups", "batch_groups", "line")
    check(case, sample(*lhs), sample(*rhs, seed=1), vmap=vmap, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["int32", "bfloat16", "float16", "complex64"])
@pytest.mark.parametrize("name", ["plain", "strided"])
def test_dtypes(name: str, dtype: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    lhs, rhs, args = CASES[name]
    case = lambda lax, x, y: lax.conv_general_dilated(x, y, *args)
    x, y = sample(*lhs, dtype=dtype), sample(*rhs, dtype=dtype, seed=1)
    # Narrow results are rounded once from float32 sums that differ in their last bits.
    narrow = dtype.itemsize == 2
    check(case, x, y, differentiate=(), vmap=False, rtol=2e-2 if narrow else 1e-4, atol=5e-2)


def test_preferred_type() -> None:
    lhs, rhs, args = CASES["strided"]
    x, y = (sample(*s, dtype=ml_dtypes.bfloat16) for s in (lhs, rhs))
    case = lambda lax, x, y: lax.conv_general_dilated(x, y, *args, preferred_element_type="float32")
    check(case, x, y, differentiate=(), vmap=False, rtol=1e-3, atol=1e-3)


def test_gradient_of_product_of_gradients() -> None:
    """Second derivatives, along a direction, by central differences in float64."""
    tetrax.config.update("jax_enable_x64", True)
    try:
        lhs, rhs, args = CASES["strided"]
        x, y = (sample(*s, dtype="float64", seed=i) for i, s in enumerate((lhs, rhs)))

        def energy(x, y):
            return lax.reduce_sum(lax.sin(lax.conv_general_dilated(x, y, *args)), range(4))

        grad = tetrax.jit(tetrax.grad(energy, argnums=(0, 1)))
        direction = sample(*rhs, dtype="float64", seed=5)
        _, got = tetrax.jvp(lambda y: grad(x, y), (y,), (direction,))
        step = 1e-5
        ahead, behind = grad(x, y + step * direction), grad(x, y - step * direction)
        for g, a, b in zip(got, ahead, behind, strict=True):
            want = (np.asarray(a) - np.asarray(b)) / (2 * step)
            np.testing.assert_allclose(g, want, rtol=1e-6, atol=1e-6)
    finally:
        tetrax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize("padding", ["SAME", "VALID", ((1, 2), (0, 1))])
@pytest.mark.parametrize("transpose_kernel", [False, True])
def test_conv_transpose(padding, transpose_kernel: bool) -> None:
    x, y = sample(2, 4, 5, 3), sample(3, 2, 3, 3, seed=1)
    case = lambda lax, x, y: lax.conv_transpose(
        x, y, (2, 3), padding, transpose_kernel=transpose_kernel
    )
    check(case, x, y, vmap=False, rtol=1e-4, atol=1e-4)
    if not isinstance(padding, str):
        case = lambda lax, x, y: lax.conv_transpose(
            x, y, (2, 3), padding, use_consistent_padding=True
        )
        check(case, x, y, vmap=False, rtol=1e-4, atol=1e-4)


def test_patches_and_local() -> None:
    x = sample(2, 3, 6, 5)
    case = lambda lax, x: lax.conv_general_dilated_patches(x, (3, 2), (1, 2), "SAME")
    check(case, x, vmap=False)
    case = lambda lax, x: lax.conv_general_dilated_patches(
        x, (3, 2), (1, 1), "VALID", dimension_numbers=("CHWN", "HWIO", "NHWC")
    )
    check(case, x, vmap=False)
    weights = sample(4, 3 * 3 * 2, 6, 3, seed=1)
    case = lambda lax, x, w: lax.conv_general_dilated_local(x, w, (1, 2), "SAME", (3, 2))
    check(case, x, weights, vmap=False, rtol=1e-4, atol=1e-4)


def test_special_cases() -> None:
    x, y = sample(2, 3, 6, 5), sample(4, 3, 2, 3, seed=1)
    check(lambda lax, x, y: lax.conv(x, y, (1, 1), "SAME"), x, y, vmap=False, rtol=1e-4, atol=1e-4)
    case = lambda lax, x, y: lax.conv_with_general_padding(
        x, y, (1, 1), ((1, 0), (0, 1)), (2, 1), (1, 2)
    )
    check(case, x, y, vmap=False, rtol=1e-4, atol=1e-4)


def test_shapes_and_layouts() -> None:
    for numbers in (NHWC, ("CHNW", "OWIH", "WCHN"), None):
        got = lax.conv_dimension_numbers((1, 2, 3, 4), (1, 2, 3, 4), numbers)
        assert tuple(got) == tuple(jax.lax.conv_dimension_numbers((1,) * 4, (1,) * 4, numbers))
    for padding in ("SAME", "VALID"):
        args = ((2, 9, 8, 4), (3, 2, 4, 6), (2, 3), padding, NHWC)
        assert lax.conv_general_shape_tuple(*args) == jax.lax.conv_general_shape_tuple(*args)
        want = jax.lax.conv_transpose_shape_tuple(*args)
        assert lax.conv_transpose_shape_tuple(*args) == tuple(map(int, want))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"feature_group_count": 2}, "feature_group_count"),
        ({"batch_group_count": 2, "feature_group_count": 3}, "at most one"),
        ({"window_strides": (1,)}, "window_strides"),
        ({"padding": ((-9, 0), (0, 0))}, "Negative padding"),
    ],
)
def test_errors(changes: dict, message: str) -> None:
    arguments = {"window_strides": (1, 1), "padding": ((0, 0), (0, 0)), **changes}
    with pytest.raises(ValueError, match=message):
        lax.conv_general_dilated(sample(2, 3, 6, 5), sample(4, 3, 2, 3), **arguments)


def test_layout_errors() -> None:
    with pytest.raises(TypeError, match="exactly once"):
        lax.conv_dimension_numbers((1,) * 4, (1,) * 4, ("NHWH", "HWIO", "NHWC"))
    with pytest.raises(TypeError, match="same set"):
        lax.conv_dimension_numbers((1,) * 4, (1,) * 4, ("NHDC", "HWIO", "NHWC"))
