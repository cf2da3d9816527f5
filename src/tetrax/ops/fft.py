"""Discrete Fourier transforms over the last axes."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, errors
from tetrax._lazy import deferred
from tetrax.ir.layout import apart_from
from tetrax.ir.program import ClosedProgram
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import mul
from tetrax.ops.base import TestFacts, real_dtype, register
from tetrax.ops.convert import complex_dtype, conj, convert_element_type
from tetrax.ops.fft_native import fft_program
from tetrax.ops.structure import Linear, broadcast_in_dim, move_axis
from tetrax.runtime.array import as_value
from tetrax.tracing.symbolic import Zero


class FftType(enum.IntEnum):
    """Complex transforms, and those between real numbers and the half of a Hermitian spectrum."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


_NAMED = {name: kind for kind in FftType for name in (kind.name, kind.name.lower())}
_FUNCTIONS = {
    FftType.FFT: deferred("scipy.fft", "fftn"),
    FftType.IFFT: deferred("scipy.fft", "ifftn"),
    FftType.RFFT: deferred("scipy.fft", "rfftn"),
    FftType.IRFFT: deferred("scipy.fft", "irfftn"),
}
_ALONG_ONE_AXIS = {
    FftType.FFT: deferred("scipy.fft", "fft"),
    FftType.IFFT: deferred("scipy.fft", "ifft"),
    FftType.RFFT: deferred("scipy.fft", "rfft"),
    FftType.IRFFT: deferred("scipy.fft", "irfft"),
}
_INVERSE, _REAL = (FftType.IFFT, FftType.IRFFT), (FftType.RFFT, FftType.IRFFT)
_LARGE = 1 << 15
"""Elements from which an eager call is compiled."""
_FLOATS, _COMPLEX = ("float32", "float64"), ("complex64", "complex128")


class Fft(Linear):
    """The transform over as many last axes as there are lengths."""

    def shape(self, x: ShapedArray, *, fft_type: FftType, fft_lengths: tuple[int, ...]):
        count = len(fft_lengths)
        name = fft_type.name
        if count > x.ndim:
            raise errors.ShapeError(
                f"FFT input shape {x.shape} must have at least as many input dimensions as "
                f"fft_lengths {fft_lengths}."
            )
        accepted = _FLOATS if fft_type is FftType.RFFT else _COMPLEX
        if x.dtype.name not in accepted:
            raise errors.ShapeError(
                f"{name} input must be {' or '.join(accepted)}, got {x.dtype.name}"
            )
        leading, minor = x.shape[: x.ndim - count], x.shape[x.ndim - count :]
        half = (*fft_lengths[:-1], fft_lengths[-1] // 2 + 1)
        if fft_type is FftType.IRFFT:
            if minor[:-1] != fft_lengths[:-1]:
                raise errors.ShapeError(
                    f"IRFFT input shape {x.shape} minor dimensions must be equal to all except the "
                    f"last fft_length, got {fft_lengths=}"
                )
            return ShapedArray((*leading, *fft_lengths), real_dtype(x.dtype))
        if minor != fft_lengths:
            raise errors.ShapeError(
                f"{name} input shape {x.shape} minor dimensions must be equal to fft_lengths "
                f"{fft_lengths}"
            )
        if fft_type is FftType.RFFT:
            return ShapedArray((*leading, *half), complex_dtype(x.dtype))
        return ShapedArray(x.shape, x.dtype)

    def factors(self, avals, outs, params):
        rank = avals[0].ndim
        return apart_from(avals, outs, range(rank - len(params["fft_lengths"]), rank))

    def reference(self, x: np.ndarray, *, fft_type: FftType, fft_lengths: tuple[int, ...]):
        if x.size == 0 or 0 in fft_lengths:
            aval = self.shape(
                ShapedArray(x.shape, x.dtype), fft_type=fft_type, fft_lengths=fft_lengths
            )
            return np.zeros(aval.shape, aval.dtype)
        if len(fft_lengths) == 1:
            return _ALONG_ONE_AXIS[fft_type](x, fft_lengths[0])
        axes = tuple(range(x.ndim - len(fft_lengths), x.ndim))
        return _FUNCTIONS[fft_type](x, fft_lengths, axes)

    def runs_compiled(self, avals: Sequence[ShapedArray], params: dict) -> bool:
        return avals[0].size >= _LARGE

    def expansion(self, avals: Sequence[ShapedArray], params: dict) -> ClosedProgram:
        kind, lengths = params["fft_type"], tuple(params["fft_lengths"])
        out = self.shape(*avals, **params)
        return fft_program(avals[0], out, lengths, kind in _INVERSE, kind in _REAL)

    def transpose(self, ct: Any, x: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]):
        if type(ct) is Zero:
            return [Zero(x.aval)]
        if fft_type is FftType.RFFT:
            # Both halves of the spectrum hold what the transform gives once.
            weights = _weights(fft_lengths[-1], ct.shape, ct.dtype, 0.5)
            scale = np.asarray(math.prod(fft_lengths), real_dtype(ct.dtype))
            spread = fft(mul(conj(ct), weights), FftType.IRFFT, fft_lengths)
            return [mul(spread, broadcast_in_dim(scale, spread.shape, ()))]
        if fft_type is FftType.IRFFT:
            spectrum = fft(ct, FftType.RFFT, fft_lengths)
            scale = 1 / math.prod(fft_lengths)
            weights = _weights(fft_lengths[-1], spectrum.shape, spectrum.dtype, 2 * scale, scale)
            return [conj(mul(spectrum, weights))]
        return [fft(ct, fft_type, fft_lengths)]

    def batch(self, operands: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        return self.bind(move_axis(operands[0], dims[0], 0), **params), 0

    def stablehlo(self, context: Any, operands: Any, outs: Any, **params: Any) -> Any:
        return context.fft(operands, outs, params["fft_type"].name, params["fft_lengths"])


def _weights(
    length: int, shape: tuple[int, ...], dtype: Any, paired: float, single: float = 1.0
) -> Any:
    """Factors along a half spectrum: `single` for frequency 0 and the middle of an even length."""
    factors = np.full(shape[-1], paired, dtype)
    factors[0] = single
    if length % 2 == 0:
        factors[-1] = single
    return broadcast_in_dim(factors, shape, (len(shape) - 1,))


def _samples() -> list[tuple[list[ShapedArray], dict]]:
    single, pair = ShapedArray((3, 7), np.complex64), ShapedArray((2, 4, 6), np.complex64)
    rows = [
        (single, FftType.FFT, (7,)),
        (pair, FftType.IFFT, (4, 6)),
        (ShapedArray((3, 7), np.float32), FftType.RFFT, (7,)),
        (ShapedArray((2, 4, 6), np.float32), FftType.RFFT, (4, 6)),
        (ShapedArray((3, 4), np.complex64), FftType.IRFFT, (7,)),
        (ShapedArray((2, 4, 4), np.complex64), FftType.IRFFT, (4, 6)),
        (ShapedArray((33,), np.complex128), FftType.FFT, (33,)),
    ]
    return [([x], {"fft_type": kind, "fft_lengths": sizes}) for x, kind, sizes in rows]


fft_p = register(Fft("fft"), TestFacts(ulp=32, samples=_samples))


def fft(x: Any, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Any:
    """The transform `fft_type` over the last axes, which have the sizes `fft_lengths`.

    Inverse transforms divide by the number of elements. For IRFFT the last length is that of the
    result. Raises ValueError for complex input to RFFT and sizes that do not fit.

    >>> fft(np.array([1.0, 0.0, 0.0], np.float32), FftType.RFFT, (3,))
    Array([1.+0.j, 1.+0.j], dtype=complex64)
    """
    kind = _NAMED.get(fft_type) if isinstance(fft_type, str) else fft_type
    if kind is None:
        raise ValueError(f"Unknown FFT type '{fft_type}'")
    if not isinstance(kind, FftType):
        raise TypeError(f"Unknown FFT type value '{fft_type}'")
    x = as_value(x)
    complex_input = x.dtype.kind == "c"
    if kind is FftType.RFFT:
        if complex_input:
            raise ValueError("only real valued inputs supported for rfft")
        x = convert_element_type(x, dtypes.to_inexact_dtype(x.dtype))
    elif not complex_input:
        x = convert_element_type(x, dtypes.to_complex_dtype(x.dtype))
    if not fft_lengths:
        return x
    return fft_p.bind(x, fft_type=kind, fft_lengths=tuple(fft_lengths))
