"""The public functions of convolution: dimension numbers by letters, and common special cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax.ops import axes as ax
from tetrax.ops.contract import dot_general
from tetrax.ops.convolution import ConvDimensionNumbers, conv_general_dilated_p
from tetrax.ops.join import dilated
from tetrax.ops.precision import Precision, canonical_precision
from tetrax.ops.shape import rev
from tetrax.ops.structure import broadcast_in_dim, reshape, transpose
from tetrax.ops.window_shapes import padtype_to_pads, window_count
from tetrax.runtime.array import as_value, make_array
from tetrax.tracing.value import get_aval

ConvGeneralDilatedDimensionNumbers = None | ConvDimensionNumbers | tuple[str, str, str]


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Axis tuples (see `ConvDimensionNumbers`) of strings such as ('NHWC', 'HWIO', 'NHWC').

    Raises TypeError unless each string has its two letters once and all name the same spatial axes.
    """
    pairs = (("N", "C"), ("O", "I"), ("N", "C"))
    spatial = []
    for i, (text, pair) in enumerate(zip(dimension_numbers, pairs, strict=True)):
        if any(text.count(letter) != 1 for letter in pair):
            raise TypeError(
                f"convolution dimension_numbers[{i}] must contain the characters '{pair[0]}' and "
                f"'{pair[1]}' exactly once, got {text}"
            )
        if len(set(text)) != len(text):
            raise TypeError(
                f"convolution dimension_numbers[{i}] cannot have duplicate characters, got {text}"
            )
        spatial.append([letter for letter in text if letter not in pair])
    if not set(spatial[0]) == set(spatial[1]) == set(spatial[2]):
        raise TypeError(
            "convolution dimension_numbers elements must each have the same set of spatial "
            f"characters, got {tuple(dimension_numbers)}"
        )
    return tuple(
        tuple(text.index(letter) for letter in (*pair, *spatial[1]))
        for text, pair in zip(dimension_numbers, pairs, strict=True)
    )


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """The `ConvDimensionNumbers` that strings, None ('NCHW', 'OIHW', 'NCHW') or a tuple stand for.

    >>> conv_dimension_numbers((1, 5, 2), (3, 2, 2), ("NHC", "HIO", "NHC")).lhs_spec
    (0, 2, 1)
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if len(lhs_shape) != len(rhs_shape):
        raise TypeError(
            "convolution requires lhs and rhs ndim to be equal, got "
            f"{len(lhs_shape)} and {len(rhs_shape)}"
        )
    if dimension_numbers is None:
        every = tuple(range(len(lhs_shape)))
        return ConvDimensionNumbers(every, every, every)
    if not isinstance(dimension_numbers, list | tuple) or len(dimension_numbers) != 3:
        raise TypeError(
            "convolution dimension_numbers must be None or a tuple of three strings, got "
            f"{dimension_numbers!r}"
        )
    for i, text in enumerate(dimension_numbers):
        if not isinstance(text, str) or len(text) != len(lhs_shape):
            raise TypeError(
                f"convolution dimension_numbers[{i}] must be a string with one character per axis, "
                f"got {text!r} for lhs and rhs shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}"
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The convolution of `lhs` (batch, features, spatial…) with windows `rhs`.

    `padding` is 'SAME', 'SAME_LOWER', 'VALID' or (low, high) pairs. `dimension_numbers` says by
    letters which axis is which, for instance ('NHWC', 'HWIO', 'NHWC'). `lhs_dilation` spreads the
    operand (transposed convolution), `rhs_dilation` the window (atrous convolution).
    Raises ValueError for sizes that do not fit.

    >>> image, weights = np.ones((1, 8, 8, 3), "float32"), np.ones((3, 3, 3, 4), "float32")
    >>> layout = ("NHWC", "HWIO", "NHWC")
    >>> conv_general_dilated(image, weights, (1, 1), "SAME", dimension_numbers=layout).shape
    (1, 8, 8, 4)
    """
    lhs, rhs = as_value(lhs), as_value(rhs)
    numbers = conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    if isinstance(window_strides, int):
        window_strides = (window_strides,) * (lhs.ndim - 2)
    ones = (1,) * (lhs.ndim - 2)
    strides, lhs_gaps, rhs_gaps = (
        tuple(int(n) for n in (ones if row is None else row))
        for row in (window_strides, lhs_dilation, rhs_dilation)
    )
    if isinstance(padding, str):
        extents = [lhs.shape[axis] for axis in numbers.lhs_spec[2:]]
        sizes = [rhs.shape[axis] for axis in numbers.rhs_spec[2:]]
        spans = [dilated(n, gap) for n, gap in zip(sizes, rhs_gaps, strict=True)]
        padding = padtype_to_pads(extents, spans, strides, padding)
    if preferred_element_type is not None:
        preferred_element_type = dtypes.check_and_canonicalize_user_dtype(
            preferred_element_type, "conv_general_dilated"
        )
    return conv_general_dilated_p.bind(
        lhs,
        rhs,
        window_strides=strides,
        padding=tuple((int(low), int(high)) for low, high in padding),
        lhs_dilation=lhs_gaps,
        rhs_dilation=rhs_gaps,
        dimension_numbers=ConvDimensionNumbers(*(tuple(map(int, spec)) for spec in numbers)),
        feature_group_count=int(feature_group_count),
        batch_group_count=int(batch_group_count),
        precision=canonical_precision(precision),
        preferred_element_type=preferred_element_type,
        out_sharding=None,
    )


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """`conv_general_dilated` without dilation, in the layout ('NCHW', 'OIHW', 'NCHW')."""
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """`conv_general_dilated` in the layout ('NCHW', 'OIHW', 'NCHW')."""
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


_TRANSPOSED_LAYOUTS = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Any:
    """The convolution that undoes the strides of one with these arguments.

    'SAME' and 'VALID' are the padding of that forward convolution; pairs are that of this one, or
    with `use_consistent_padding` that of the forward one too. `transpose_kernel` flips the window
    and swaps its features, which makes this the gradient of the forward convolution.
    """
    lhs, rhs = as_value(lhs), as_value(rhs)
    if dimension_numbers is None:
        if lhs.ndim not in _TRANSPOSED_LAYOUTS:
            raise ValueError("No 4+ dimensional dimension_number defaults.")
        dimension_numbers = _TRANSPOSED_LAYOUTS[lhs.ndim]
    numbers = conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    gaps = (1,) * (lhs.ndim - 2) if rhs_dilation is None else tuple(rhs_dilation)
    sizes = [rhs.shape[axis] for axis in numbers.rhs_spec[2:]]
    if use_consistent_padding or (isinstance(padding, str) and padding in ("SAME", "VALID")):
        rows = [padding] * len(sizes) if isinstance(padding, str) else padding
        padding = [
            _transposed_padding(dilated(size, gap), stride, row)
            for size, gap, stride, row in zip(sizes, gaps, strides, rows, strict=True)
        ]
    if transpose_kernel:
        rhs = rev(rhs, numbers.rhs_spec[2:])
        order = list(range(rhs.ndim))
        first, second = numbers.rhs_spec[:2]
        order[first], order[second] = second, first
        rhs = transpose(rhs, order)
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * len(sizes),
        padding,
        strides,
        gaps,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def _transposed_padding(size: int, stride: int, padding: Any) -> tuple[int, int]:
    """Padding of a transposed convolution from that of the forward one."""
    if padding == "SAME":
        total = size + stride - 2
        before = size - 1 if stride > size - 1 else math.ceil(total / 2)
    elif padding == "VALID":
        total = size + stride - 2 + max(size - stride, 0)
        before = size - 1
    elif isinstance(padding, list | tuple):
        low, high = (size - n - 1 for n in padding)
        total, before = low + high, low
    else:
        raise ValueError(f"Invalid padding mode: {padding}")
    return before, total - before


def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The windows that a convolution sees, with the elements of each as features of the result.

    Features are ordered (operand feature, spatial places of the window).
    """
    lhs = as_value(lhs)
    filter_shape = tuple(filter_shape)
    numbers = conv_dimension_numbers(lhs.shape, (1, 1, *filter_shape), dimension_numbers)
    size, channels = math.prod(filter_shape), lhs.shape[numbers.lhs_spec[1]]
    unit = make_array(np.eye(size, dtype=lhs.dtype))
    rhs = broadcast_in_dim(unit, (channels, size, size), (1, 2))
    rhs = reshape(rhs, (channels * size, 1, *filter_shape))
    order = ax.inverse_permutation(numbers.rhs_spec)
    return conv_general_dilated(
        lhs,
        transpose(rhs, order),
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        feature_group_count=channels,
        precision=None if precision is None else (precision, Precision.DEFAULT),
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Any:
    """A convolution with other weights at every place of the result.

    `rhs` has the result's spatial sizes, and features in the order of
    `conv_general_dilated_patches`.
    """
    lhs = as_value(lhs)
    both = canonical_precision(precision)
    patches = conv_general_dilated_patches(
        lhs,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        both[0] if isinstance(both, tuple) and len(both) == 2 else None,
    )
    numbers = conv_dimension_numbers(lhs.shape, (1, 1, *filter_shape), dimension_numbers)
    places = sorted(zip(numbers.out_spec[2:], numbers.rhs_spec[2:], strict=True))
    contract = ((numbers.out_spec[1],), (numbers.rhs_spec[1],))
    batch = (tuple(a for a, _ in places), tuple(b for _, b in places))
    out = dot_general(patches, rhs, (contract, batch), precision)
    ndim = get_aval(out).ndim
    # The result has its places, then batch, then features.
    first, second = numbers.out_spec[:2]
    rest = iter(range(ndim - 2))
    order = [
        ndim - 2 if axis == first else ndim - 1 if axis == second else next(rest)
        for axis in range(ndim)
    ]
    return transpose(out, order)


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: Any,
    batch_group_count: int = 1,
) -> tuple[int, ...]:
    """The shape of a convolution in the layout ('NCHW', 'OIHW', 'NCHW')."""
    if isinstance(pads, str):
        pads = padtype_to_pads(lhs_shape[2:], rhs_shape[2:], strides, pads)
    if len(pads) != len(lhs_shape) - 2:
        raise TypeError(
            f"Wrong number of explicit pads for convolution: expected {len(lhs_shape) - 2}, got "
            f"{len(pads)}."
        )
    counts = [
        window_count(extent + low + high, window, stride)
        for extent, window, stride, (low, high) in zip(
            lhs_shape[2:], rhs_shape[2:], strides, pads, strict=True
        )
    ]
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *counts)


def _in_layout(shape: Sequence[int], spec: Sequence[int]) -> tuple[int, ...]:
    return tuple(shape[i] for i in ax.inverse_permutation(spec))


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    dimension_numbers: Sequence[str],
) -> tuple[int, ...]:
    """The shape of a convolution in a layout given by letters."""
    lhs_spec, rhs_spec, out_spec = conv_general_permutations(dimension_numbers)
    lhs = [lhs_shape[axis] for axis in lhs_spec]
    rhs = [rhs_shape[axis] for axis in rhs_spec]
    return _in_layout(conv_shape_tuple(lhs, rhs, window_strides, padding), out_spec)


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    dimension_numbers: Sequence[str],
) -> tuple[int, ...]:
    """The shape of a transposed convolution in a layout given by letters."""
    lhs_spec, rhs_spec, out_spec = conv_general_permutations(dimension_numbers)
    lhs = [lhs_shape[axis] for axis in lhs_spec]
    rhs = [rhs_shape[axis] for axis in rhs_spec]
    if isinstance(padding, str):
        padding = [
            _transposed_padding(size, stride, padding)
            for size, stride in zip(rhs[2:], window_strides, strict=True)
        ]
    counts = [
        (extent - 1) * stride - size + 2 + sum(row)
        for extent, size, stride, row in zip(lhs[2:], rhs[2:], window_strides, padding, strict=True)
    ]
    return _in_layout((lhs[0], rhs[0], *counts), out_spec)


__all__ = [
    "ConvDimensionNumbers",
    "ConvGeneralDilatedDimensionNumbers",
    "conv",
    "conv_dimension_numbers",
    "conv_general_dilated",
    "conv_general_dilated_local",
    "conv_general_dilated_patches",
    "conv_general_permutations",
    "conv_general_shape_tuple",
    "conv_shape_tuple",
    "conv_transpose",
    "conv_transpose_shape_tuple",
    "conv_with_general_padding",
]
