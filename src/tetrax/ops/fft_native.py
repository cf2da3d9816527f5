"""Fourier transforms as the compiler for CPUs sees them: routines with a table beside the operand.

Lengths with large prime factors are convolutions with a chirp (Bluestein's algorithm): elementwise
work around two transforms of another length.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from tetrax.ir.program import ClosedProgram
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import mul
from tetrax.ops.base import real_dtype
from tetrax.ops.convert import complex, complex_dtype, conj, convert_element_type, real
from tetrax.ops.fft_emit import FftEmitter
from tetrax.ops.fft_plan import Transform, has_columns, lanes_of, roots
from tetrax.ops.join import concatenate, pad, slice_along
from tetrax.ops.shape import rev
from tetrax.ops.structure import broadcast_in_dim, full, move_axis
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.staging import stage_flat
from tetrax.tracing.value import get_aval

GOOD_FACTORS = (2, 3, 5, 7)


class FftLines(Primitive):
    """A transform of some axes, with its tables as an operand; `length` is what a real one makes of
    the last axis, or takes there.
    """

    cost = 1
    folds = True

    def shape(self, x, table, *, axes, length, inverse, real):
        if not real:
            return ShapedArray(x.shape, x.dtype)
        last = length if inverse else length // 2 + 1
        dtype = real_dtype(x.dtype) if inverse else complex_dtype(x.dtype)
        return ShapedArray((*x.shape[:-1], last), dtype)

    def emit(self, builder, operands, outs, *, axes, length, inverse, real):
        x, table = operands
        transform = _transform(x.shape, axes, length, inverse, real, x.dtype)
        FftEmitter(builder, transform, table.buffer).run(x.buffer, outs[0].buffer)


class FftAxes(Primitive):
    """A complex transform of any axes, which a pass makes of one between transpositions."""

    cost = 1
    folds = True

    def shape(self, x, *, axes, inverse):
        return ShapedArray(x.shape, x.dtype)

    def expansion(self, avals, params):
        return _axes_program(avals[0], tuple(params["axes"]), params["inverse"])


fft_lines_p = FftLines("fft_lines")
fft_axes_p = FftAxes("fft_axes")


@lru_cache(maxsize=16)
def _axes_program(x: ShapedArray, axes: tuple[int, ...], inverse: bool) -> ClosedProgram:
    return stage_flat(lambda value: [_native(value, axes, x.shape[-1], inverse, False)], [x])


def _native(x: Any, axes: tuple[int, ...], length: int, inverse: bool, real: bool) -> Any:
    aval = get_aval(x)
    table = _transform(aval.shape, axes, length, inverse, real, aval.dtype).table()
    return fft_lines_p.bind(x, table, axes=axes, length=length, inverse=inverse, real=real)


def _transform(
    shape: Sequence[int], axes: Sequence[int], length: int, inverse: bool, real: bool, dtype: Any
) -> Transform:
    spectrum = list(shape)
    if real and not inverse:
        spectrum[-1] = length // 2 + 1
    parts = np.dtype(real_dtype(dtype) if dtype.kind == "c" else dtype)
    return Transform.of(spectrum, axes, length, inverse, real, parts)


@lru_cache(maxsize=16)
def fft_program(
    x: ShapedArray, out: ShapedArray, lengths: tuple[int, ...], inverse: bool, real: bool
) -> ClosedProgram:
    """A transform as a program of operations that have code of their own."""
    if x.size == 0 or out.size == 0:
        return stage_flat(lambda _: [full(out.shape, 0, out.dtype)], [x])
    return stage_flat(lambda value: [_transformed(value, lengths, inverse, real)], [x])


def _transformed(x: Any, lengths: tuple[int, ...], inverse: bool, real: bool) -> Any:
    aval = get_aval(x)
    last = aval.ndim - 1
    axes = tuple(range(aval.ndim - len(lengths), aval.ndim))
    if has_columns((*aval.shape[:-1], lengths[-1]), axes):
        return _native(x, axes, lengths[-1], inverse, real)
    if len(lengths) == 1:
        return _with_chirp(x, lengths[0], inverse, real)
    rest = range(last - 1, last - len(lengths), -1)
    if real and inverse:
        for axis in rest:
            x = _along(x, axis, True)
        return _transformed(x, lengths[-1:], True, True)
    x = _transformed(x, lengths[-1:], inverse, real)
    for axis in rest:
        x = _along(x, axis, inverse)
    return x


def _along(x: Any, axis: int, inverse: bool) -> Any:
    last = get_aval(x).ndim - 1
    lengths = (get_aval(x).shape[axis],)
    moved = _transformed(move_axis(x, axis, last), lengths, inverse, False)
    return move_axis(moved, last, axis)


# --- lengths with large prime factors ---


def _with_chirp(x: Any, n: int, inverse: bool, is_real: bool) -> Any:
    half = n // 2 + 1
    last = get_aval(x).ndim - 1
    if not is_real:
        return _convolved(x, n, inverse)
    if not inverse:
        whole = convert_element_type(x, complex_dtype(get_aval(x).dtype))
        return slice_along(_convolved(whole, n, False), last, 0, half)
    # frequency 0 and the middle one of an even number are real
    pieces = [_without_imaginary(slice_along(x, last, 0, 1))]
    stop = (n + 1) // 2
    inner = slice_along(x, last, 1, stop)
    pieces.append(inner)
    if n % 2 == 0:
        pieces.append(_without_imaginary(slice_along(x, last, stop, stop + 1)))
    pieces.append(conj(rev(inner, (last,))))
    return real(_convolved(concatenate(pieces, last), n, True))


def _without_imaginary(x: Any) -> Any:
    part = real(x)
    return complex(part, full(get_aval(part).shape, 0, get_aval(part).dtype))


def _convolved(x: Any, n: int, inverse: bool) -> Any:
    """The transform along the last axis: w^(jk) is a product of chirps of j, k and k - j."""
    aval = get_aval(x)
    last, lanes = aval.ndim - 1, lanes_of(aval.dtype)
    size = good_size(2 * n - 1, lanes * lanes)
    chirp, spectrum = _chirp(n, size, inverse)
    end = chirp / n if inverse else chirp
    begun = _times(x, chirp, aval)
    padded = pad(begun, full((), 0, aval.dtype), [(0, 0, 0)] * last + [(0, size - n, 0)])
    middle = _times(_transformed(padded, (size,), False, False), spectrum, get_aval(padded))
    back = _transformed(middle, (size,), True, False)
    return _times(slice_along(back, last, 0, n), end, aval)


def _times(x: Any, factors: np.ndarray, aval: ShapedArray) -> Any:
    rounded = factors.astype(aval.dtype)
    return mul(x, broadcast_in_dim(rounded, aval.shape, (aval.ndim - 1,)))


@lru_cache(maxsize=16)
def _chirp(n: int, size: int, inverse: bool) -> tuple[np.ndarray, np.ndarray]:
    """exp(-i pi j^2 / n), and the spectrum of its conjugate for j from -n to n."""
    j = np.arange(n)
    chirp = roots(2 * n, j * j % (2 * n))
    if inverse:
        chirp = chirp.conj()
    filter = np.zeros(size, chirp.dtype)
    filter[:n] = chirp.conj()
    filter[size - n + 1 :] = chirp[1:][::-1].conj()
    return chirp, np.fft.fft(filter)


def good_size(least: int, unit: int) -> int:
    """The smallest multiple of `unit` from `least` on that has small factors only."""
    size = -(-least // unit) * unit
    while not _is_good(size):
        size += unit
    return size


def _is_good(n: int) -> bool:
    for factor in GOOD_FACTORS:
        while n % factor == 0:
            n //= factor
    return n == 1


__all__ = ["fft_axes_p", "fft_lines_p", "fft_program", "good_size"]
