"""Choosing elements by conditions: where, nonzero, select, choose, compress, put, place."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, errors, lax
from tetrax.compiler.planned import planned
from tetrax.numpy._arithmetic import as_bool
from tetrax.numpy._at import scatter
from tetrax.numpy._convert import asarray
from tetrax.numpy._gather import take_positions
from tetrax.numpy._indexing import along_axis_index, get, take
from tetrax.numpy._promote import (
    broadcast_array,
    canonicalize_axis,
    check_arraylike,
    check_no_out,
    convert,
    ensure_arraylike,
    promote_dtypes,
    promote_shapes,
    to_array,
)
from tetrax.numpy._shapes import ravel
from tetrax.numpy._typing import Array, ArrayLike
from tetrax.runtime.array import make_array
from tetrax.tracing.trace import Tracer, concrete_or_error

_BOOL = np.dtype(np.bool_)


# --------------------------------------------------------------------------- where


@planned(3)
def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """Take from `x` where the condition holds, else from `y`; with the condition alone, `nonzero`.

    Both branches are computed. A derivative that is infinite or NaN in the branch not taken
    spoils the result: replace the argument, not only the value, where it is dangerous.

    >>> where(np.array([True, False]), 1, 2)
    Array([1, 2], dtype=int32, weak_type=True)
    """
    if x is None and y is None:
        check_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    if size is not None or fill_value is not None:
        raise ValueError(
            "size and fill_value arguments cannot be used in three-term where function."
        )
    check_arraylike("where", condition, x, y)
    mask = convert(as_bool(to_array(condition)), _BOOL)
    x, y = promote_dtypes(x, y)
    mask, x, y = promote_shapes("where", mask, x, y)
    shape = lax.broadcast_shapes(mask.shape, x.shape, y.shape)
    if mask.ndim:
        mask = broadcast_array(mask, shape)
    return lax.select(mask, broadcast_array(x, shape), broadcast_array(y, shape))


# --------------------------------------------------------------------------- nonzero


def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """Return the positions of elements that differ from zero, one array of indices per axis.

    How many there are decides the result's shape, so under `jit` the number must be given as
    `size`: what is missing is filled with `fill_value` (one for all axes or one each), what is
    too much is cut.

    >>> nonzero(np.array([0, 3, 4]))
    (Array([1, 2], dtype=int32),)
    """
    a = ensure_arraylike("nonzero", a)
    if a.ndim == 0:
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use jnp.atleast_1d(scalar).nonzero() "
            "instead."
        )
    mask = convert(as_bool(a), _BOOL)
    if size is None:
        return _known_nonzero(mask)
    if isinstance(size, Tracer):
        size = concrete_or_error(size, errors.ConcretizationTypeError, _SIZE_HELP.format("nonzero"))
    size = operator.index(size)
    fillers = fill_value if isinstance(fill_value, tuple) else (fill_value,) * a.ndim
    if len(fillers) != a.ndim:
        raise ValueError(f"fill_value must have one entry per axis ({a.ndim}), got {fill_value}")
    return _sized_nonzero(mask, size, fillers)


_SIZE_HELP = (
    "The number of results of jnp.{0} depends on the values, so under jit it must be given: "
    "pass the "
    "`size` argument of jnp.{0} (and `fill_value` for the places left over)."
)


def known_values(x: Array, name: str) -> np.ndarray:
    """Return the elements; raise ConcretizationTypeError naming `size` where they are traced."""
    return np.asarray(concrete_or_error(x, errors.ConcretizationTypeError, _SIZE_HELP.format(name)))


def _known_nonzero(mask: Array) -> tuple[Array, ...]:
    dtype = dtypes.default_int_dtype()
    found = np.nonzero(known_values(mask, "nonzero"))
    return tuple(make_array(positions.astype(dtype)) for positions in found)


def _sized_nonzero(mask: Array, size: int, fillers: Sequence[Any]) -> tuple[Array, ...]:
    dtype = dtypes.default_int_dtype()
    flat = ravel(mask)
    if flat.size == 0 or size == 0:
        return tuple(
            lax.full((size,), 0 if filler is None else filler, dtype) for filler in fillers
        )
    count = lax.cumsum(lax.convert_element_type(flat, dtype))
    # The k-th hit goes to slot k; what is not a hit goes beyond the end and is dropped.
    slot = lax.select(flat, lax.sub(count, dtype.type(1)), lax.full_like(count, size))
    places = lax.iota(dtype, flat.size)
    empty = lax.full((size,), 0, dtype)
    found = scatter(empty, slot, places, "set", mode="drop", unique_indices=False)
    filled = lax.lt(lax.iota(dtype, size), lax.broadcast_in_dim(count[-1], (size,), ()))
    results = []
    for axis, filler in enumerate(fillers):
        inner = dtype.type(int(np.prod(mask.shape[axis + 1 :], dtype=int)))
        along = lax.rem(lax.div(found, inner), dtype.type(mask.shape[axis]))
        value = convert(0 if filler is None else filler, dtype)
        results.append(lax.select(filled, along, broadcast_array(value, (size,))))
    return tuple(results)


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Return the positions, in the flattened array, of elements that differ from zero."""
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Return the positions of elements that differ from zero, one row each."""
    a = ensure_arraylike("argwhere", a)
    if a.ndim == 0:
        count = 1 if size is None else size
        return lax.full(
            (count if known_values(a, "argwhere") else 0, 0), 0, dtypes.default_int_dtype()
        )
    columns = nonzero(a, size=size, fill_value=fill_value)
    return lax.concatenate([lax.expand_dims(column, (1,)) for column in columns], 1)


# --------------------------------------------------------------------------- several conditions


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: ArrayLike = 0) -> Array:
    """Take each element from the choice of the first condition that holds, else the default."""
    if len(condlist) != len(choicelist):
        raise ValueError(
            f"condlist must have length equal to choicelist ({len(condlist)} vs {len(choicelist)})"
        )
    if not condlist:
        raise ValueError("condlist must be non-empty")
    check_arraylike("select", *condlist, *choicelist, default)
    *choices, result = promote_dtypes(*choicelist, default)
    for condition, choice in zip(condlist[::-1], choices[::-1], strict=True):
        result = where(condition, choice, result)
    return result


def piecewise(
    x: ArrayLike,
    condlist: Any,
    funclist: Sequence[Any],
    *args: Any,
    **kw: Any,
) -> Array:
    """Evaluate a function by cases: the last condition that holds decides.

    One function or number more than conditions is the default; without it, the default is zero.
    """
    x = ensure_arraylike("piecewise", x)
    conditions = _conditions(condlist, x)
    count = len(conditions)
    functions = list(funclist)
    if len(functions) == count:
        functions.append(0)
    elif len(functions) != count + 1:
        raise ValueError(
            f"with {count} condition(s), either {count} or {count + 1} functions are expected; "
            f"got {len(funclist)}"
        )
    result = _piece(functions[-1], x, args, kw)
    for condition, function in zip(conditions, functions[:-1], strict=True):
        result = where(condition, _piece(function, x, args, kw), result)
    return broadcast_array(result, x.shape)


def _conditions(condlist: Any, x: Array) -> list[Array]:
    if not isinstance(condlist, (list, tuple)):
        stacked = ensure_arraylike("piecewise", condlist)
        if stacked.ndim == 0:
            return [stacked]
        return [stacked[i] for i in range(stacked.shape[0])]
    items = [asarray(item) for item in condlist]
    if items and items[0].ndim == 0 and x.ndim > 0:
        return [asarray(condlist)]
    return items


def _piece(function: Any, x: Array, args: Any, kw: Any) -> Array:
    value = to_array(function(x, *args, **kw)) if callable(function) else to_array(function)
    return convert(value, x.dtype)


def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """Take each element from the choice of the number given in `a`.

    Modes: "raise" (the numbers must be known), "wrap", "clip".
    """
    check_no_out("choose", out)
    check_arraylike("choose", a, *choices)
    a = to_array(a)
    if not dtypes.issubdtype(a.dtype, np.integer):
        raise ValueError("`a` array must be integer typed")
    count = len(choices)
    if mode == "raise":
        known = np.asarray(
            concrete_or_error(
                a,
                errors.ConcretizationTypeError,
                "The error occurred because jnp.choose was jit-compiled with mode='raise'. "
                "Use mode='wrap' or mode='clip' instead.",
            )
        )
        if np.any((known < 0) | (known >= count)):
            raise ValueError("invalid entry in choice array")
    elif mode not in ("wrap", "clip"):
        raise ValueError(f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'")
    arrays = [convert(x, x.dtype) for x in promote_dtypes(*choices)]
    shape = lax.broadcast_shapes(a.shape, *(choice.shape for choice in arrays))
    stacked = lax.concatenate([lax.expand_dims(broadcast_array(x, shape), (0,)) for x in arrays], 0)
    which = take(np.arange(count), a, mode="clip" if mode == "raise" else mode)
    index = lax.expand_dims(broadcast_array(which, shape), (0,))
    return lax.squeeze(get(stacked, along_axis_index(stacked.shape, index, 0)), (0,))


# --------------------------------------------------------------------------- compress and extract


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """Keep the slices along an axis for which the condition holds; under `jit`, give the `size`."""
    check_no_out("compress", out)
    check_arraylike("compress", condition, a, fill_value)
    mask, a = as_bool(to_array(condition)), to_array(a)
    if mask.ndim != 1:
        raise ValueError("condition must be a 1D array")
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonicalize_axis(axis, a.ndim)
    length = min(a.shape[axis], mask.shape[0])
    extra = mask.shape[0] > length and not isinstance(mask, Tracer)
    if extra and np.any(np.asarray(mask)[length:]):
        raise ValueError("condition contains entries that are out of bounds")
    mask = lax.slice_in_dim(mask, 0, length)
    found = nonzero(mask, size=size, fill_value=a.shape[axis])[0]
    if size is None:
        return take_positions(a, found, axis)
    index = (slice(None),) * axis + (found,)
    filler = convert(fill_value, a.dtype)
    taken = get(a, index, mode="clip")
    shape = [1] * taken.ndim
    shape[axis] = size
    valid = lax.lt(found, found.dtype.type(a.shape[axis]))
    valid = broadcast_array(lax.reshape(valid, shape), taken.shape)
    return lax.select(valid, taken, broadcast_array(filler, taken.shape))


def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0
) -> Array:
    """Keep the elements of the flattened array for which the condition holds."""
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


# --------------------------------------------------------------------------- changed copies


def _check_not_in_place(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(
            f"jax.numpy.{name} cannot modify arrays in-place, because JAX arrays are immutable. "
            "Pass inplace=False to instead return an updated array."
        )


def put(
    a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True
) -> Array:
    """Return a copy with values put at positions of the flattened array (with `inplace=False`)."""
    check_arraylike("put", a, ind, v)
    _check_not_in_place("put", inplace)
    a, positions, values = to_array(a), ravel(ind), ravel(v)
    if not a.size or not positions.size or not values.size:
        return a
    repeats = -(-positions.size // values.size)
    if repeats > 1:
        values = lax.concatenate([values] * repeats, 0)
    values = lax.slice_in_dim(values, 0, positions.size)
    if mode is None:
        how = "clip"
    elif mode == "clip":
        positions, how = take(np.arange(a.size), positions, mode="clip"), "promise_in_bounds"
    elif mode == "wrap":
        positions, how = take(np.arange(a.size), positions, mode="wrap"), "promise_in_bounds"
    else:
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got {mode=}")
    return lax.reshape(scatter(ravel(a), positions, values, "set", mode=how), a.shape)


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """Return a copy where the elements under a mask are replaced by values, in turn."""
    check_arraylike("place", arr, mask, vals)
    _check_not_in_place("place", inplace)
    a, where_, values = to_array(arr), ravel(as_bool(to_array(mask))), ravel(vals)
    if a.size != where_.size:
        raise ValueError("place: arr and mask must be the same size")
    if not values.size:
        raise ValueError("Cannot place values from an empty array")
    if not a.size:
        return a
    where_ = convert(where_, _BOOL)
    count = lax.cumsum(lax.convert_element_type(where_, np.int32))
    turn = lax.rem(lax.max(lax.sub(count, np.int32(1)), np.int32(0)), np.int32(values.size))
    chosen = convert(take_positions(values, turn, 0), a.dtype)
    return lax.reshape(lax.select(where_, chosen, ravel(a)), a.shape)


def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: Any = None,
) -> Array:
    """Return a copy with one value put per index along an axis (with `inplace=False`)."""
    check_arraylike("put_along_axis", arr, indices, values)
    _check_not_in_place("put_along_axis", inplace)
    a, positions = to_array(arr), to_array(indices)
    if not dtypes.issubdtype(positions.dtype, np.integer):
        raise TypeError(f"put_along_axis indices must be of integer type, got {positions.dtype}")
    shape = a.shape
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonicalize_axis(axis, a.ndim)
    if a.ndim != positions.ndim:
        raise ValueError(
            f"indices and arr must have the same number of dimensions; {positions.ndim} vs. "
            f"{a.ndim}"
        )
    index = along_axis_index(a.shape, positions, axis)
    return lax.reshape(scatter(a, index, values, "set", mode=mode), shape)


def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True
) -> Array:
    """Return a copy with values, in turn, on the main diagonal (with `inplace=False`)."""
    check_arraylike("fill_diagonal", a, val)
    _check_not_in_place("fill_diagonal", inplace)
    if wrap:
        raise NotImplementedError("wrap=True is not implemented, must use wrap=False")
    x, values = to_array(a), ravel(val)
    if x.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if x.ndim > 2 and len(set(x.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    size = min(x.shape)
    if size == 0:
        return x
    repeats = -(-size // values.size)
    if values.size != 1:
        values = lax.slice_in_dim(lax.concatenate([values] * repeats, 0), 0, size)
    steps = np.arange(size, dtype=np.int32)
    return scatter(x, (steps,) * x.ndim, values, "set")
