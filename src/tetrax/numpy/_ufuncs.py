"""The built-in ufuncs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tetrax import lax
from tetrax.numpy import _arithmetic, _bits
from tetrax.numpy._at import scatter
from tetrax.numpy._convert import asarray
from tetrax.numpy._cumulative import cumprod, cumsum
from tetrax.numpy._promote import convert, user_dtype
from tetrax.numpy._reductions import all as all_
from tetrax.numpy._reductions import any as any_
from tetrax.numpy._reductions import max as max_
from tetrax.numpy._reductions import min as min_
from tetrax.numpy._reductions import prod
from tetrax.numpy._reductions import sum as sum_
from tetrax.numpy._typing import Array
from tetrax.numpy._ufunc import ufunc


def _reducer(function: Callable[..., Array]) -> Callable[..., Array]:
    """Adapt a reduction that takes a dtype."""

    def reduce(a: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Array:
        return function(a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)

    return reduce


def _extreme_reducer(function: Callable[..., Array]) -> Callable[..., Array]:
    """Adapt a reduction that keeps the dtype of its operand."""

    def reduce(a: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Array:
        if dtype is not None:
            a = convert(asarray(a), user_dtype(dtype, function.__name__))
        return function(a, axis=axis, keepdims=keepdims, initial=initial, where=where)

    return reduce


def _logical_reducer(function: Callable[..., Array]) -> Callable[..., Array]:
    """Adapt `all` and `any`, whose result is boolean."""

    def reduce(a: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Array:
        result = function(a, axis=axis, keepdims=keepdims, where=where)
        if initial is not None:
            start = convert(_arithmetic.as_bool(asarray(initial)), np.dtype(np.bool_))
            join = lax.bitwise_and if function is all_ else lax.bitwise_or
            result = join(result, start)
        return result if dtype is None else convert(result, user_dtype(dtype, function.__name__))

    return reduce


def _updater(operation: str) -> Callable[..., Array]:
    def at(a: Array, indices: Any, b: Any) -> Array:
        return scatter(a, indices, b, operation)

    return at


add = ufunc(
    _arithmetic.add,
    2,
    1,
    name="add",
    identity=0,
    call=_arithmetic.add,
    reduce=_reducer(sum_),
    accumulate=cumsum,
    at=_updater("add"),
)
multiply = ufunc(
    _arithmetic.multiply,
    2,
    1,
    name="multiply",
    identity=1,
    call=_arithmetic.multiply,
    reduce=_reducer(prod),
    accumulate=cumprod,
    at=_updater("multiply"),
)
subtract = ufunc(
    _arithmetic.subtract,
    2,
    1,
    name="subtract",
    call=_arithmetic.subtract,
    at=_updater("subtract"),
)
negative = ufunc(_arithmetic.negative, 1, 1, name="negative", call=_arithmetic.negative)
maximum = ufunc(
    _arithmetic.maximum,
    2,
    1,
    name="maximum",
    call=_arithmetic.maximum,
    reduce=_extreme_reducer(max_),
    at=_updater("max"),
)
minimum = ufunc(
    _arithmetic.minimum,
    2,
    1,
    name="minimum",
    call=_arithmetic.minimum,
    reduce=_extreme_reducer(min_),
    at=_updater("min"),
)
logaddexp = ufunc(
    _arithmetic.logaddexp, 2, 1, name="logaddexp", identity=-np.inf, call=_arithmetic.logaddexp
)
logaddexp2 = ufunc(
    _arithmetic.logaddexp2, 2, 1, name="logaddexp2", identity=-np.inf, call=_arithmetic.logaddexp2
)
logical_and = ufunc(
    _arithmetic.logical_and,
    2,
    1,
    name="logical_and",
    identity=True,
    call=_arithmetic.logical_and,
    reduce=_logical_reducer(all_),
)
logical_or = ufunc(
    _arithmetic.logical_or,
    2,
    1,
    name="logical_or",
    identity=False,
    call=_arithmetic.logical_or,
    reduce=_logical_reducer(any_),
)
logical_xor = ufunc(
    _arithmetic.logical_xor, 2, 1, name="logical_xor", identity=False, call=_arithmetic.logical_xor
)
bitwise_and = ufunc(
    _bits.bitwise_and, 2, 1, name="bitwise_and", identity=-1, call=_bits.bitwise_and
)
bitwise_or = ufunc(_bits.bitwise_or, 2, 1, name="bitwise_or", identity=0, call=_bits.bitwise_or)
bitwise_xor = ufunc(_bits.bitwise_xor, 2, 1, name="bitwise_xor", identity=0, call=_bits.bitwise_xor)
