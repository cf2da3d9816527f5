"""The methods and properties of arrays and tracers, and how they are installed.

Most methods are the function of the same name with the array as first argument. `install` fills
the seam in `tetrax.tracing.value`; `tetrax/__init__.py` calls it once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.numpy import (
    _contract,
    _convert,
    _cumulative,
    _elementwise,
    _rearrange,
    _reductions,
    _search,
    _select,
    _shapes,
    _sorting,
)
from tetrax.numpy._at import _IndexUpdateHelper
from tetrax.numpy._extremes import clip as _clip_to
from tetrax.numpy._indexing import take as _take
from tetrax.numpy._operators import OPERATORS
from tetrax.numpy._promote import user_dtype
from tetrax.numpy._typing import Array, ArrayLike, Device, DTypeLike, PrecisionLike
from tetrax.tracing.value import Value, install_operators

# --------------------------------------------------------------------------- methods of their own


def _astype(self: Value, dtype: DTypeLike, copy: bool = False, device: Device = None) -> Array:
    """Convert to a dtype."""
    return _convert.astype(self, dtype, copy=copy, device=device)


def _clip(self: Value, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """Limit the elements to a range."""
    return _clip_to(self, min, max)


def _compress(
    self: Value,
    condition: ArrayLike,
    axis: int | None = None,
    *,
    out: None = None,
    size: int | None = None,
    fill_value: ArrayLike = 0,
) -> Array:
    """Keep the slices along an axis for which a condition holds."""
    return _select.compress(condition, self, axis, out=out, size=size, fill_value=fill_value)


def _copy(self: Value) -> Array:
    """Return a copy."""
    return lax.copy_p.bind(self)


def _flatten(self: Value, order: str = "C", *, out_sharding: Any = None) -> Array:
    """Flatten into one axis."""
    return _shapes.ravel(self, order, out_sharding=out_sharding)


def _reshape(self: Value, *args: Any, order: str = "C", out_sharding: Any = None) -> Array:
    """Give the array a new shape; the sizes may be separate arguments."""
    shape = args[0] if len(args) == 1 else args
    return _shapes.reshape(self, shape, order, out_sharding=out_sharding)


def _transpose(self: Value, *args: Any) -> Array:
    """Reorder the axes; they may be separate arguments, or absent to reverse them."""
    if not args:
        return _shapes.transpose(self)
    axes = args[0] if len(args) == 1 and (args[0] is None or not isinstance(args[0], int)) else args
    return _shapes.transpose(self, axes)


def _dot(
    self: Value,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Contract the last axis with the second-to-last (or only) one of another array."""
    return _contract.dot(
        self, b, precision=precision, preferred_element_type=preferred_element_type
    )


def _nonzero(self: Value, *, fill_value: Any = None, size: int | None = None) -> tuple[Array, ...]:
    """Return the positions of elements that differ from zero."""
    return _select.nonzero(self, size=size, fill_value=fill_value)


def _argsort(
    self: Value,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """Return the positions that sort the array."""
    return _sorting.argsort(
        self, axis, kind=kind, order=order, stable=stable, descending=descending
    )


def _std(
    self: Value,
    axis: Any = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Return the standard deviation along axes."""
    return _reductions.std(
        self, axis, dtype, out, ddof, keepdims, where=where, correction=correction
    )


def _var(
    self: Value,
    axis: Any = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Return the variance along axes."""
    return _reductions.var(
        self, axis, dtype, out, ddof, keepdims, where=where, correction=correction
    )


def _to_device(self: Value, device: Device, *, stream: Any = None) -> Array:
    """Put the array on another device."""
    if stream is not None:
        raise NotImplementedError("stream argument of array.to_device()")
    return _convert.placed(self, device)


def _byteswap(self: Value) -> Array:
    """Reverse the bytes of each element; the elements must be known."""
    return _convert.asarray(np.asarray(self).byteswap())


def _view(self: Value, dtype: DTypeLike = None, type: None = None) -> Array:
    """Read the bytes of the elements as another dtype."""
    if type is not None:
        raise NotImplementedError("`type` argument of array.view() is not supported.")
    if dtype is None:
        return self
    target = user_dtype(dtype, "view")
    if self.ndim == 0:
        if dtypes.itemsize_bits(self.dtype) != dtypes.itemsize_bits(target):
            raise ValueError("view() of a 0d array is only supported if the itemsize is unchanged.")
        return _bitcast(self, target)
    if target == np.bool_ and self.dtype != np.bool_:
        return lax.ne(_view(self, np.uint8), np.uint8(0))
    source = lax.convert_element_type(self, np.uint8) if self.dtype == np.bool_ else self
    have, want = dtypes.itemsize_bits(source.dtype), dtypes.itemsize_bits(target)
    if want <= have:
        spread = _bitcast(source, target)
        if want == have:
            return spread
        return lax.reshape(spread, (*self.shape[:-1], self.shape[-1] * (have // want)))
    ratio = want // have
    if self.shape[-1] % ratio:
        raise ValueError(
            "When changing to a larger dtype, its size must be a divisor of the total size in "
            "bytes of the "
            f"last axis of the array; got shape {self.shape}, {self.dtype} to {target}."
        )
    grouped = lax.reshape(source, (*self.shape[:-1], self.shape[-1] // ratio, ratio))
    return _bitcast(grouped, target)


def _bitcast(x: Array, target: np.dtype) -> Array:
    """Reinterpret bits; complex numbers are read through their parts."""
    if x.dtype == target:
        return x
    if x.dtype.kind == "c":
        part = np.dtype(np.float32) if x.dtype == np.complex64 else np.dtype(np.float64)
        axis = x.ndim
        pair = lax.concatenate(
            [lax.expand_dims(lax.real(x), (axis,)), lax.expand_dims(lax.imag(x), (axis,))], axis
        )
        return pair if target == part else lax.bitcast_convert_type(pair, target)
    if target.kind == "c":
        part = np.dtype(np.float32) if target == np.complex64 else np.dtype(np.float64)
        pair = x if x.dtype == part else lax.bitcast_convert_type(x, part)
        last = pair.ndim - 1
        real, imag = (lax.index_in_dim(pair, i, last, keepdims=False) for i in range(2))
        return lax.complex(real, imag)
    return lax.bitcast_convert_type(x, target)


# --------------------------------------------------------------------------- properties


def _matrix_transposed(self: Value) -> Array:
    if self.ndim < 2:
        raise ValueError(
            f"x must be at least two-dimensional for matrix_transpose; got ndim={self.ndim}"
        )
    return _shapes.matrix_transpose(self)


def _no_flat(self: Value) -> Any:
    raise NotImplementedError(
        "JAX Arrays do not implement the arr.flat property: consider arr.flatten() instead."
    )


def _array_module(self: Value, types: Any) -> Any:
    """Answer NumPy's proposed protocol for choosing a module."""
    known = all(issubclass(kind, (Value, np.ndarray, *_NUMBERS)) for kind in types)
    return sys.modules["tetrax.numpy"] if known else NotImplemented


_NUMBERS = (bool, int, float, complex, np.generic)


def _array_namespace(self: Value, *, api_version: str | None = None) -> Any:
    """Return the module that follows the array API standard."""
    namespace = sys.modules["tetrax.numpy"]
    if api_version is not None and api_version != namespace.__array_api_version__:
        raise ValueError(
            f"api_version={api_version!r} is not available; "
            f"jax.numpy follows {namespace.__array_api_version__}"
        )
    return namespace


PROPERTIES: dict[str, Any] = {
    "T": property(lambda self: _shapes.transpose(self), doc="The array with its axes reversed."),
    "mT": property(_matrix_transposed, doc="The array with its last two axes exchanged."),
    "real": property(lambda self: _elementwise.real(self), doc="The real parts."),
    "imag": property(lambda self: _elementwise.imag(self), doc="The imaginary parts."),
    "at": property(lambda self: _IndexUpdateHelper(self), doc="Changed copies by index."),
    "flat": property(_no_flat, doc="Not available; use flatten()."),
    "nbytes": property(
        lambda self: self.size * dtypes.itemsize_bits(self.dtype) // 8, doc="The size in bytes."
    ),
    "itemsize": property(lambda self: self.dtype.itemsize, doc="The size of one element in bytes."),
}

METHODS: dict[str, Callable[..., Any]] = {
    "__array_module__": _array_module,
    "__array_namespace__": _array_namespace,
    "all": _reductions.all,
    "any": _reductions.any,
    "argmax": _reductions.argmax,
    "argmin": _reductions.argmin,
    "argpartition": _sorting.argpartition,
    "argsort": _argsort,
    "astype": _astype,
    "byteswap": _byteswap,
    "choose": _select.choose,
    "clip": _clip,
    "clone": _copy,
    "compress": _compress,
    "conj": _elementwise.conjugate,
    "conjugate": _elementwise.conjugate,
    "copy": _copy,
    "cumprod": _cumulative.cumprod,
    "cumsum": _cumulative.cumsum,
    "diagonal": _rearrange.diagonal,
    "dot": _dot,
    "flatten": _flatten,
    "max": _reductions.max,
    "mean": _reductions.mean,
    "min": _reductions.min,
    "nonzero": _nonzero,
    "prod": _reductions.prod,
    "ptp": _reductions.ptp,
    "ravel": _shapes.ravel,
    "repeat": _rearrange.repeat,
    "reshape": _reshape,
    "round": _elementwise.round,
    "searchsorted": _search.searchsorted,
    "sort": _sorting.sort,
    "squeeze": _shapes.squeeze,
    "std": _std,
    "sum": _reductions.sum,
    "swapaxes": _shapes.swapaxes,
    "take": _take,
    "to_device": _to_device,
    "trace": _rearrange.trace,
    "transpose": _transpose,
    "var": _var,
    "view": _view,
}


def install() -> None:
    """Give every array and tracer its operators, methods and properties."""
    install_operators({**OPERATORS, **METHODS, **PROPERTIES})
