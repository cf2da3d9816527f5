"""Convolutions of many geometries, large enough for library routines, against plain sums.

The oracle dilates and pads in float64 and adds up one place of the window at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import ml_dtypes
import pytest
from tests.ops.jax_oracle import sample

import numpy as np
import tetrax
from tetrax import lax
from tetrax.config import config

LAYOUTS = {
    1: {
        "last": ("NHC", "HIO", "NHC"),
        "first": ("NCH", "OIH", "NCH"),
        "mixed": ("NCH", "HIO", "NHC"),
    },
    2: {
        "last": ("NHWC", "HWIO", "NHWC"),
        "first": ("NCHW", "OIHW", "NCHW"),
        "mixed": ("NHWC", "OIHW", "NCHW"),
        "odd": ("WNHC", "OWIH", "HWNC"),
    },
    3: {"last": ("NDHWC", "DHWIO", "NDHWC"), "first": ("NCDHW", "OIDHW", "NCDHW")},
}


@dataclass(frozen=True)
class Shape:
    """A convolution; sizes in the order batch, features, spatial axes."""

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    groups: int = 1
    batch_groups: int = 1
    layout: str = "last"
    dtype: object = field(default=np.float32)

    @property
    def rank(self) -> int:
        return len(self.strides)

    def specs(self):
        ones = (1,) * (self.rank + 2)
        return lax.conv_dimension_numbers(ones, ones, LAYOUTS[self.rank][self.layout])

    def arrays(self):
        """Operands in the layout's order of axes."""
        specs = self.specs()
        made = []
        for seed, (shape, spec) in enumerate(
            ((self.lhs, specs.lhs_spec), (self.rhs, specs.rhs_spec))
        ):
            x = sample(*shape, dtype=self.dtype, seed=seed)
            made.append(np.ascontiguousarray(np.transpose(x, np.argsort(spec))))
        return made

    def convolve(self, x, y):
        return lax.conv_general_dilated(
            x,
            y,
            self.strides,
            self.padding,
            self.lhs_dilation,
            self.rhs_dilation,
            self.specs(),
            self.groups,
            self.batch_groups,
        )


def by_sums(shape: Shape, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The convolution in float64, one place of the window after another."""
    specs, groups = shape.specs(), max(shape.groups, shape.batch_groups)
    x = np.transpose(np.asarray(x, np.float64), specs.lhs_spec)
    y = np.transpose(np.asarray(y, np.float64), specs.rhs_spec)
    for axis, (step, (low, high)) in enumerate(
        zip(shape.lhs_dilation, shape.padding, strict=True), 2
    ):
        size = max(0, (x.shape[axis] - 1) * step + 1)
        spread = np.zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]))
        spread[(slice(None),) * axis + (slice(None, None, step),)] = x
        spread = np.pad(
            spread, [(max(low, 0), max(high, 0)) if a == axis else (0, 0) for a in range(x.ndim)]
        )
        cut = slice(max(-low, 0), spread.shape[axis] - max(-high, 0))
        x = spread[(slice(None),) * axis + (cut,)]
    spans = [(n - 1) * gap + 1 for n, gap in zip(y.shape[2:], shape.rhs_dilation, strict=True)]
    counts = [
        max(0, (n - span) // stride + 1)
        for n, span, stride in zip(x.shape[2:], spans, shape.strides, strict=True)
    ]
    batch = x.shape[0] // shape.batch_groups
    out = np.zeros((batch, y.shape[0], *counts))
    wide = y.shape[0] // groups
    for place in np.ndindex(*y.shape[2:]):
        rows = tuple(
            slice(p * gap, p * gap + stride * (n - 1) + 1, stride) if n else slice(0, 0)
            for p, gap, stride, n in zip(
                place, shape.rhs_dilation, shape.strides, counts, strict=True
            )
        )
        part = x[(slice(None), slice(None), *rows)]
        pieces = np.split(part, groups, axis=1 if shape.groups > 1 else 0)
        for g, piece in enumerate(pieces):
            weights = y[(slice(g * wide, (g + 1) * wide), slice(None), *place)]
            out[:, g * wide : (g + 1) * wide] += np.einsum("bc...,oc->bo...", piece, weights)
    return np.transpose(out, np.argsort(specs.out_spec))


def random_shape(seed: int) -> Shape:
    """A geometry of at least some thousand multiplications."""
    rng = np.random.default_rng(seed)
    pick = lambda *choices: choices[rng.integers(len(choices))]
    rank = pick(1, 2, 2, 2, 3)
    groups = pick(1, 1, 1, 2, 3)
    batch_groups = pick(1, 1, 1, 2) if groups == 1 else 1
    channels, features = int(pick(1, 2, 3, 5, 8)), int(pick(3, 5, 8, 16, 17, 35))
    sizes = tuple(int(rng.integers(1, (40, 13, 7)[rank - 1])) for _ in range(rank))
    window = tuple(int(rng.integers(1, 5)) for _ in range(rank))
    lhs_dilation = tuple(int(pick(1, 1, 2, 3)) for _ in range(rank))
    rhs_dilation = tuple(int(pick(1, 1, 1, 2, 3)) for _ in range(rank))
    padding = []
    for n, w, a, b in zip(sizes, window, lhs_dilation, rhs_dilation, strict=True):
        span, full = (w - 1) * b + 1, (n - 1) * a + 1
        low = int(rng.integers(-1, span + 2)) if full > 1 else int(rng.integers(0, span + 2))
        high = max(int(rng.integers(-1, span)), span - full - low, -low)
        padding.append((low, high))
    return Shape(
        (int(pick(1, 2, 3, 9)) * batch_groups, channels * groups, *sizes),
        (features * groups * batch_groups, channels, *window),
        tuple(int(pick(1, 1, 2, 3)) for _ in range(rank)),
        tuple(padding),
        lhs_dilation,
        rhs_dilation,
        groups,
        batch_groups,
        pick(*LAYOUTS[rank]),
    )


TWOS, ONES = (2, 2), (1, 1)
MARGIN = ((1, 1), (1, 1))
CHOSEN = {
    "forward": Shape((9, 5, 14, 13), (17, 5, 3, 3), ONES, MARGIN, ONES, ONES),
    "rows of one image": Shape((1, 8, 33, 31), (16, 8, 3, 3), ONES, MARGIN, ONES, ONES),
    "large image": Shape((2, 32, 70, 50), (16, 32, 3, 3), ONES, MARGIN, ONES, ONES),
    "dilated large image": Shape((1, 32, 50, 50), (16, 32, 3, 3), ONES, MARGIN, TWOS, ONES),
    "dilated images": Shape((17, 8, 9, 8), (16, 8, 4, 4), ONES, ((2, 2), (1, 2)), TWOS, ONES),
    "strided": Shape((9, 8, 15, 14), (16, 8, 3, 3), TWOS, MARGIN, ONES, ONES),
    "window of one": Shape((9, 8, 9, 9), (16, 8, 1, 1), TWOS, ((0, 0), (0, 0)), ONES, ONES),
    "dilated window of one": Shape((9, 8, 9, 9), (16, 8, 1, 1), ONES, MARGIN, (3, 2), ONES),
    "grouped": Shape((3, 24, 11, 12), (24, 8, 3, 3), ONES, MARGIN, ONES, ONES, 3),
    "in place": Shape((9, 8, 12, 12), (16, 8, 3, 2), ONES, ((0, 0), (0, 0)), ONES, (2, 1)),
    "cut off": Shape((9, 8, 12, 12), (16, 8, 3, 3), ONES, ((-2, -1), (1, -3)), ONES, ONES),
}  # fmt: skip


def against_sums(shape: Shape) -> None:
    x, y = shape.arrays()
    want = by_sums(shape, x, y)
    got = np.asarray(tetrax.jit(shape.convolve)(x, y))
    assert got.shape == want.shape and got.dtype == x.dtype
    # Sums of products of standard normal values, in the result's precision.
    depth = max(1, int(np.prod(shape.rhs[1:])))
    bound = 8 * np.sqrt(depth) * np.finfo(np.float32).eps
    np.testing.assert_allclose(got, want, rtol=bound, atol=8 * bound)
    if want.size == 0:
        return
    # <ct, conv(x, y)> is linear in x and in y: the gradients give it back
    ct = sample(*want.shape, seed=3)
    gx, gy = tetrax.jit(lambda x, y: tetrax.vjp(shape.convolve, x, y)[1](ct))(x, y)
    direction = [sample(*x.shape, seed=4), sample(*y.shape, seed=5)]
    for got, moved, along in (
        (gx, (direction[0], y), direction[0]),
        (gy, (x, direction[1]), direction[1]),
    ):
        products = by_sums(shape, *moved) * ct
        scale = np.sqrt(depth * want.size)
        total = np.vdot(np.asarray(got, np.float64), along)
        np.testing.assert_allclose(total, products.sum(), rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("name", CHOSEN)
def test_chosen(name: str) -> None:
    against_sums(CHOSEN[name])


@pytest.mark.parametrize("seed", range(24))
def test_random_geometries(seed: int) -> None:
    against_sums(random_shape(seed))


@pytest.mark.parametrize("dtype", [np.float64, ml_dtypes.bfloat16, np.float16])
def test_element_types(dtype) -> None:
    with tetrax.enable_x64(True):
        for name in ("forward", "dilated images", "in place"):
            shape = Shape(**{**CHOSEN[name].__dict__, "dtype": np.dtype(dtype)})
            x, y = shape.arrays()
            got = tetrax.jit(shape.convolve)(x, y)
            assert got.dtype == np.dtype(dtype)
            # one rounding of the result for narrow types
            bound = 1e-12 if dtype is np.float64 else 4 * float(ml_dtypes.finfo(dtype).eps)
            want = by_sums(shape, x, y)
            np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=bound, atol=bound)


@pytest.mark.parametrize("name", ["forward", "dilated images", "large image", "many", "many last"])
def test_same_bits_for_any_number_of_threads(name: str) -> None:
    shape = CHOSEN.get(name) or DEPTHWISE[name]
    x, y = shape.arrays()
    ct = sample(*by_sums(shape, x, y).shape, seed=3)
    compiled = tetrax.jit(
        lambda x, y: (shape.convolve(x, y), tetrax.vjp(shape.convolve, x, y)[1](ct))
    )
    results = []
    for threads in (1, 2, 7):
        with type(config).num_threads(threads):
            out, gradients = compiled(x, y)
            results.append([np.asarray(leaf).tobytes() for leaf in (out, *gradients)])
    assert results[0] == results[1] == results[2]


def test_two_results_of_different_shapes() -> None:
    """Two sums over one operand, of equal rank but not of equal shape, are loops of their own."""
    weights = Shape((64, 2, 64), (64, 2, 64), (1,), ((2, 2),), (1,), (1,), 1, 64, "first", np.int32)
    image = Shape((2, 64, 64), (64, 1, 5), (1,), ((2, 2),), (1,), (1,), 64, 1, "first", np.int32)
    x, y = image.arrays()
    turned = lambda x: x.swapaxes(0, 1)
    run = tetrax.jit(lambda x, y: (weights.convolve(turned(x), turned(x)), image.convolve(x, y)))
    small, large = run(x, y)
    np.testing.assert_array_equal(small, by_sums(weights, turned(x), turned(x)))
    np.testing.assert_array_equal(large, by_sums(image, x, y))


def _depthwise(rank: int, layout: str, **changes) -> Shape:
    sizes, window = (13, 14, 5)[:rank], (3, 2, 2)[:rank]
    ones, margin = (1,) * rank, ((1, 1),) * rank
    base = {
        "lhs": (3, 19, *sizes), "rhs": (19, 1, *window), "strides": ones, "padding": margin,
        "lhs_dilation": ones, "rhs_dilation": ones, "groups": 19, "layout": layout,
    }  # fmt: skip
    return Shape(**{**base, **changes})


DEPTHWISE = {
    **{f"{n} {layout}": _depthwise(n, layout) for n in LAYOUTS for layout in LAYOUTS[n]},
    "strided": _depthwise(2, "last", strides=(2, 3)),
    "strided first": _depthwise(2, "first", strides=(2, 3)),
    "dilated": _depthwise(2, "last", lhs_dilation=(2, 3), rhs_dilation=(1, 2)),
    "dilated first": _depthwise(2, "first", lhs_dilation=(2, 3), rhs_dilation=(1, 2)),
    "gaps": _depthwise(2, "last", lhs_dilation=(4, 3), padding=((0, 3), (-2, 1))),
    "wide margin": _depthwise(2, "last", padding=((5, 4), (6, 0))),
    "wide margin first": _depthwise(2, "first", padding=((5, 4), (16, 20))),
    "large window": _depthwise(2, "last", rhs=(19, 1, 7, 7), padding=((3, 3), (3, 3))),
    "larger window": _depthwise(2, "last", rhs=(19, 1, 9, 9), padding=((3, 3), (3, 3))),
    "narrow": _depthwise(2, "last", lhs=(40, 19, 12, 1)),
    "many": _depthwise(1, "first", lhs=(8, 19, 600)),
    "many last": _depthwise(2, "last", lhs=(20, 19, 40, 30)),
}  # fmt: skip


@pytest.mark.parametrize("name", DEPTHWISE)
def test_depthwise(name: str) -> None:
    against_sums(DEPTHWISE[name])


@pytest.mark.parametrize("dtype", [np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("layout", ["first", "last"])
def test_depthwise_element_types(layout: str, dtype) -> None:
    with tetrax.enable_x64(True):
        shape = _depthwise(2, layout, dtype=np.dtype(dtype))
        x, y = shape.arrays()
        got = tetrax.jit(shape.convolve)(x, y)
        assert got.dtype == np.dtype(dtype)
        bound = 1e-12 if dtype is np.float64 else 4 * float(ml_dtypes.finfo(dtype).eps)
        want = by_sums(shape, x, y)
        np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=bound, atol=bound)
