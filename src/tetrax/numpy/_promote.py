"""What happens to the operands before an operation sees them: checks, dtypes, ranks.

Operations want operands of one dtype and one rank. NumPy-style functions accept mixtures; the
functions here turn a mixture into what operations want, following the promotion lattice in
`tetrax.dtypes`. The common cases (two arrays of one dtype, an array and a Python number) are
decided first and cost little.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.config import config
from tetrax.ir.types import ShapedArray
from tetrax.numpy._typing import PYTHON_SCALARS, Array, ArrayLike, DTypeLike, Shape
from tetrax.runtime.array import Array as ConcreteArray
from tetrax.runtime.array import make_array, wrap
from tetrax.tracing.trace import EVAL_TRACE, state
from tetrax.tracing.value import Value

_ARRAY_TYPES = (Value, np.ndarray, np.generic, *PYTHON_SCALARS)

# Python number type -> the kinds of dtype that absorb it without changing.
_ABSORBED_BY = {
    bool: frozenset("biufcV"),
    int: frozenset("iufcV"),
    float: frozenset("fcV"),
    complex: frozenset("c"),
}


# --------------------------------------------------------------------------- checks


def is_arraylike(x: Any) -> bool:
    """Tell whether `x` is an array, a number, or an object that offers itself as an array."""
    return isinstance(x, _ARRAY_TYPES) or hasattr(x, "__jax_array__")


def check_arraylike(fun_name: str, *args: Any) -> None:
    """Raise TypeError unless every argument is an array or a number (lists are refused)."""
    for position, arg in enumerate(args):
        if isinstance(arg, _ARRAY_TYPES) or hasattr(arg, "__jax_array__"):
            continue
        raise TypeError(
            f"{fun_name} requires ndarray or scalar arguments, got {type(arg)} at position "
            f"{position}."
        )


def check_arraylike_or_none(fun_name: str, *args: Any) -> None:
    """Raise TypeError unless every argument that is not None is an array or a number."""
    check_arraylike(fun_name, *(0 if arg is None else arg for arg in args))


def check_no_out(fun_name: str, out: object) -> None:
    """Refuse NumPy's `out=` argument: arrays are immutable."""
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to jnp.{fun_name} is not supported.")


def check_no_float0(fun_name: str, *args: Any) -> None:
    """Refuse the dtype of derivatives with respect to integers, which holds no values."""
    if any(dtypes.dtype(arg) == dtypes.float0 for arg in args):
        raise TypeError(
            f"Called {fun_name} with a float0 array. float0 arrays stand for the derivatives with "
            "respect to integers and hold no values; make zeros of the wanted dtype instead."
        )


def user_dtype(dtype: DTypeLike, fun_name: str) -> np.dtype:
    """Return the dtype for what the user asked for, warning where 64 bits are switched off."""
    return dtypes.check_and_canonicalize_user_dtype(dtype, fun_name)


def static_index(x: Any, what: str) -> int:
    """Return `x` as a Python int; raise TypeError naming the argument where that is impossible."""
    try:
        return operator.index(x)
    except TypeError as error:
        raise TypeError(f"{what} must be an integer, got {x!r}") from error


# --------------------------------------------------------------------------- to arrays


def to_array(x: ArrayLike) -> Array:
    """Turn an array, NumPy array or number into an Array of canonical dtype; numbers stay weak."""
    if isinstance(x, Value):
        return x
    if isinstance(x, (np.ndarray, np.generic)):
        dtype = dtypes.canonicalize_dtype(x.dtype, allow_extended_dtype=True)
        return make_array(_numpy_cast(np.asarray(x), dtype))
    if isinstance(x, PYTHON_SCALARS):
        return make_array(_numpy_scalar(x, dtypes.dtype(x)), weak_type=not isinstance(x, bool))
    if hasattr(x, "__jax_array__"):
        return to_array(x.__jax_array__())
    raise TypeError(f"{x!r} is not an array or a number")


def ensure_arraylike(fun_name: str, *args: Any) -> Any:
    """Check the arguments and return them as Arrays: one alone, several as a tuple."""
    check_arraylike(fun_name, *args)
    if len(args) == 1:
        return to_array(args[0])
    return tuple(to_array(arg) for arg in args)


def _numpy_cast(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if x.dtype == dtype:
        return x
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def _numpy_scalar(x: Any, dtype: np.dtype) -> np.ndarray:
    """Return a Python number as a 0-d array; integers wrap, but must fit the default integer."""
    if x == 0:  # 0.0 and -0.0 are the same key but not the same number
        return _new_numpy_scalar(x, dtype)
    key = (type(x), x, dtype)
    found = _known_scalars.get(key)
    if found is None:
        found = _new_numpy_scalar(x, dtype)
        found.flags.writeable = False
        if len(_known_scalars) >= _MOST_KNOWN_SCALARS:
            _known_scalars.clear()
        _known_scalars[key] = found
    return found


_known_scalars: dict[tuple[type, Any, np.dtype], np.ndarray] = {}
_MOST_KNOWN_SCALARS = 4096


def _new_numpy_scalar(x: Any, dtype: np.dtype) -> np.ndarray:
    if isinstance(x, int) and not isinstance(x, bool) and dtype.kind in "iuV":
        default = dtypes.default_int_dtype()
        if not np.iinfo(default).min <= x <= np.iinfo(default).max:
            try:
                return np.asarray(x, dtype)  # a large uint64
            except OverflowError as error:
                raise OverflowError(f"Python int {x} too large to convert to {dtype}") from error
        return np.asarray(x, np.int64).astype(dtype)
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype)


def scalar_beside(array: Value, number: Any, weak_type: bool = False) -> Array:
    """Return a number in the dtype of an array, for use beside it in an operation.

    Outside transformations it comes in the array's shape, all elements one and the same in
    memory, so that the operation has nothing to broadcast.
    """
    dtype, shape = array.dtype, array.shape
    value = _numpy_scalar(number, dtype)
    if not shape or type(array) is not ConcreteArray or state.trace is not EVAL_TRACE:
        return wrap(value, ShapedArray((), dtype, weak_type))
    if array.weak_type == weak_type:
        aval = array.aval
    else:
        aval = ShapedArray(shape, dtype, weak_type)
    spread = np.ndarray(shape, dtype, value.tobytes(), 0, (0,) * len(shape))
    return wrap(spread, aval)


# --------------------------------------------------------------------------- dtypes


def convert(x: ArrayLike, dtype: np.dtype, weak_type: bool = False) -> Array:
    """Convert to `dtype`, weakly typed or not, without a warning; no copy where none is due."""
    if isinstance(x, Value):
        if x.dtype == dtype and x.weak_type == weak_type:
            return x
        if not weak_type:
            return lax.convert_element_type(x, dtype)
        return lax.convert_element_type_p.bind(x, new_dtype=dtype, weak_type=True, sharding=None)
    if isinstance(x, (np.ndarray, np.generic)):
        return make_array(_numpy_cast(np.asarray(x), dtype), weak_type=weak_type)
    if isinstance(x, PYTHON_SCALARS):
        return make_array(_numpy_scalar(x, dtype), weak_type=weak_type)
    return convert(to_array(x), dtype, weak_type)


def promote_dtypes(*args: ArrayLike) -> list[Array]:
    """Convert all arguments to their common dtype."""
    if len(args) < 2:
        return [to_array(arg) for arg in args]
    dtype, weak_type = dtypes.result_type(*args, return_weak_type_flag=True)
    return [convert(arg, dtype, weak_type) for arg in args]


def promote_dtypes_inexact(*args: ArrayLike) -> list[Array]:
    """Convert all arguments to their common dtype, and to the matching float where it is exact."""
    dtype, weak_type = dtypes.result_type(*args, return_weak_type_flag=True)
    inexact = dtypes.to_inexact_dtype(dtype)
    return [convert(arg, inexact, weak_type) for arg in args]


def promote_dtypes_numeric(*args: ArrayLike) -> list[Array]:
    """Convert all arguments to their common dtype, and booleans to integers."""
    dtype, weak_type = dtypes.result_type(*args, return_weak_type_flag=True)
    return [convert(arg, dtypes.to_numeric_dtype(dtype), weak_type) for arg in args]


def promote_dtypes_complex(*args: ArrayLike) -> list[Array]:
    """Convert all arguments to their common complex dtype."""
    dtype, weak_type = dtypes.result_type(*args, return_weak_type_flag=True)
    return [convert(arg, dtypes.to_complex_dtype(dtype), weak_type) for arg in args]


def promote_shapes(fun_name: str, *args: Array) -> Sequence[Array]:
    """Give all arguments the rank of the largest, leaving scalars to the operation."""
    shapes = [np.shape(arg) for arg in args]
    ranks = {len(shape) for shape in shapes if shape}
    if len(ranks) < 2:
        _check_broadcastable(fun_name, shapes)
        return args
    if config.numpy_rank_promotion != "allow":
        _complain_of_rank_promotion(fun_name, shapes)
    _check_broadcastable(fun_name, shapes)
    rank = max(ranks)
    return [lax.broadcast_to_rank(arg, rank) if 0 < arg.ndim < rank else arg for arg in args]


def _check_broadcastable(fun_name: str, shapes: Sequence[Shape]) -> None:
    full = [shape for shape in shapes if shape]
    if len(full) < 2 or all(shape == full[0] for shape in full[1:]):
        return
    try:
        np.broadcast_shapes(*full)
    except ValueError:
        listed = ", ".join(map(str, shapes))
        same_rank = len({len(shape) for shape in full}) == 1
        kind = TypeError if same_rank else ValueError
        raise kind(f"{fun_name} got incompatible shapes for broadcasting: {listed}.") from None


def _complain_of_rank_promotion(fun_name: str, shapes: Sequence[Shape]) -> None:
    listed = " ".join(map(str, shapes))
    if config.numpy_rank_promotion == "raise":
        raise ValueError(
            f"Operands could not be broadcast together for {fun_name} on shapes {listed} and "
            f"with the "
            "config option numpy_rank_promotion='raise'. Make the ranks equal with `x[None]` or "
            "reshape."
        )
    warnings.warn(
        f"Following NumPy automatic rank promotion for {fun_name} on shapes {listed}. "
        "Set the numpy_rank_promotion config option to 'allow' to disable this warning.",
        stacklevel=4,
    )


# --------------------------------------------------------------------------- everything at once


def promote_args(fun_name: str, *args: ArrayLike) -> Sequence[Array]:
    """Check the arguments and give them one dtype and one rank."""
    if len(args) == 2:
        pair = _promote_pair(args[0], args[1])
        if pair is not None:
            return pair
    check_arraylike(fun_name, *args)
    check_no_float0(fun_name, *args)
    return promote_shapes(fun_name, *promote_dtypes(*args))


def promote_args_inexact(fun_name: str, *args: ArrayLike) -> Sequence[Array]:
    """Check the arguments and give them one float or complex dtype and one rank."""
    if len(args) == 2:
        pair = _promote_pair(args[0], args[1])
        if pair is not None and dtypes.issubdtype(pair[0].dtype, np.inexact):
            return pair
    check_arraylike(fun_name, *args)
    check_no_float0(fun_name, *args)
    return promote_shapes(fun_name, *promote_dtypes_inexact(*args))


def promote_args_numeric(fun_name: str, *args: ArrayLike) -> Sequence[Array]:
    """Check the arguments and give them one dtype, integer where they are boolean, and one rank."""
    if len(args) == 2:
        pair = _promote_pair(args[0], args[1])
        if pair is not None and pair[0].dtype != np.bool_:
            return pair
    check_arraylike(fun_name, *args)
    check_no_float0(fun_name, *args)
    return promote_shapes(fun_name, *promote_dtypes_numeric(*args))


def as_inexact(fun_name: str, x: ArrayLike) -> Array:
    """Check one argument and return it as a float or complex Array."""
    if isinstance(x, Value) and x.dtype.kind in "fc":
        return x
    check_arraylike(fun_name, x)
    check_no_float0(fun_name, x)
    return promote_dtypes_inexact(x)[0]


def _promote_pair(x: Any, y: Any) -> tuple[Array, Array] | None:
    """Decide the common cases: two arrays that already agree, an array and a Python number."""
    if isinstance(x, Value):
        if isinstance(y, Value):
            same = x.dtype == y.dtype and x.weak_type == y.weak_type
            return (x, y) if same and x.shape == y.shape and x.dtype != dtypes.float0 else None
        number = _absorb(x, y)
        return None if number is None else (x, number)
    if isinstance(y, Value):
        number = _absorb(y, x)
        return None if number is None else (number, y)
    return None


def _absorb(array: Value, number: Any) -> Array | None:
    """Return a Python number in the array's dtype, if the array's dtype is the result dtype."""
    dtype = array.dtype
    if array.weak_type or dtype.kind not in _ABSORBED_BY.get(type(number), ()):
        return None
    if dtype.kind == "V" and not dtypes.issubdtype(dtype, np.inexact):
        return None
    return scalar_beside(array, number)


# --------------------------------------------------------------------------- axes and shapes


def canonicalize_axis(axis: Any, rank: int) -> int:
    """Return a non-negative axis; raise AxisError (a ValueError) where it is out of bounds."""
    axis = operator.index(axis)
    if not -rank <= axis < rank:
        raise np.exceptions.AxisError(axis, rank)
    return axis + rank if axis < 0 else axis


def canonicalize_axes(axis: Any, rank: int) -> tuple[int, ...]:
    """Return an axis, several, or None (all) as non-negative axes without repeats."""
    if axis is None:
        return tuple(range(rank))
    items: Iterable[Any] = axis if isinstance(axis, (tuple, list, np.ndarray)) else (axis,)
    axes = tuple(canonicalize_axis(item, rank) for item in items)
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axis': {axis}")
    return axes


def canonicalize_shape(shape: Any, fun_name: str = "shape") -> Shape:
    """Return an int or a sequence of ints as a shape; sizes must be known and non-negative."""
    if isinstance(shape, (int, np.integer)) or (
        np.ndim(shape) == 0 and hasattr(shape, "__index__")
    ):
        shape = (shape,)
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError as error:
        if any(isinstance(size, Value) for size in _items(shape)):
            raise
        raise TypeError(
            f"Shapes must be 1D sequences of concrete values of integer type, got {shape} "
            f"({fun_name})."
        ) from error
    if any(size < 0 for size in sizes):
        raise ValueError(f"Negative dimensions are not allowed: {fun_name} got the shape {sizes}.")
    return sizes


def _items(shape: Any) -> Iterable[Any]:
    return shape if isinstance(shape, (tuple, list)) else (shape,)


def broadcast_arrays_to(args: Sequence[Array], shape: Shape) -> list[Array]:
    """Broadcast every array to one shape, NumPy's way."""
    return [broadcast_array(arg, shape) for arg in args]


def broadcast_array(x: Array, shape: Shape) -> Array:
    """Broadcast one array to a shape it fits, adding axes on the left."""
    if x.shape == shape:
        return x
    return lax.broadcast_in_dim(x, shape, tuple(range(len(shape) - x.ndim, len(shape))))
