"""What all samplers do with their arguments before they sample."""

from __future__ import annotations

import functools
import math
import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.config import config
from tetrax.higher_order.jit import jit
from tetrax.tracing.trace import EVAL_TRACE, state
from tetrax.tracing.value import Value

# An exact body that ran this often with the same static arguments is compiled.
_REPEATED = 8
_REMEMBERED = 10_000
# Below this many samples the operations run one by one; above, as one compiled function.
_COMPILED_SIZE = 4096


def as_shape(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of ints; an int is a shape of one axis. Raises TypeError otherwise."""
    if isinstance(shape, int | np.integer):
        shape = (shape,)
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        raise TypeError(
            f"Shapes must be 1D sequences of concrete values of integer type, got {shape}."
        ) from None
    if any(size < 0 for size in sizes):
        raise ValueError(f"Negative dimensions are not allowed: got the shape {sizes}.")
    return sizes


def check_shape(name: str, shape: tuple[int, ...], *parameter_shapes: Any) -> None:
    """Raises ValueError unless the parameters broadcast to exactly `shape`."""
    if not parameter_shapes:
        return
    found = lax.broadcast_shapes(shape, *parameter_shapes)
    if shape != found:
        raise ValueError(
            f"{name} parameter shapes must be broadcast-compatible with shape argument, and the "
            f"result of broadcasting the shapes must equal the shape argument, but got result "
            f"{found} for shape argument {shape}."
        )


def shape_of(name: str, shape: Any, *parameters: Any) -> tuple[int, ...]:
    """The result shape: `shape` if given, else that of the parameters, broadcast."""
    found = [np.shape(p) for p in parameters]
    if shape is None:
        return tuple(lax.broadcast_shapes(*found)) if found else ()
    shape = as_shape(shape)
    check_shape(name, shape, *found)
    return shape


def float_dtype(name: str, dtype: Any, accepts: Any = np.floating) -> Any:
    """The dtype of float samples, by default the default one. Raises ValueError otherwise."""
    dtype = dtypes.check_and_canonicalize_user_dtype(float if dtype is None else dtype)
    if not dtypes.issubdtype(dtype, accepts):
        kind = "a float" if accepts is np.floating else "a float or complex"
        raise ValueError(f"dtype argument to `{name}` must be {kind} dtype, got {dtype}")
    return dtype


def int_dtype(dtype: Any) -> Any:
    """The dtype of integer samples, by default the default one."""
    return dtypes.check_and_canonicalize_user_dtype(int if dtype is None else dtype)


def check_castable(name: str, dtype: Any, *parameters: Any) -> None:
    """Raises TypePromotionError where a parameter would lose precision in `dtype`."""
    for parameter in parameters:
        if not dtypes.safe_to_cast(parameter, dtype):
            raise dtypes.TypePromotionError(
                f"In arguments to {name}, cannot safely cast argument of type "
                f"{dtypes.dtype(parameter)} to {dtype}"
            )


def parameter(x: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    """A distribution's parameter in the dtype and shape of the samples."""
    x = lax.convert_element_type(x, dtype)
    if x.shape == shape:
        return x
    first = len(shape) - x.ndim
    return lax.broadcast_in_dim(x, shape, tuple(range(first, len(shape))))


class sampler:
    """Run `body(key, *parameters, shape=..., ...)` compiled where that pays.

    Keyword arguments are static. Many samples, or a body with loops, are compiled as a whole; a few
    are cheaper operation by operation, without a compile stall. A body that is `exact`, giving the
    same bits either way, is compiled also when it is called again and again for few samples.
    """

    def __init__(self, *, loops: bool = False, exact: bool = False) -> None:
        self.loops = loops
        self.exact = exact

    def __call__(self, body: Callable[..., Any]) -> Callable[..., Any]:
        compiled: dict[tuple[str, ...], Any] = {}
        calls: Counter[Any] = Counter()

        @functools.wraps(body)
        def run(*operands: Any, **static: Any) -> Any:
            if config.disable_jit or not self._pays(operands, static, calls):
                return body(*operands, **static)
            names = tuple(static)
            if names not in compiled:
                compiled[names] = jit(body, static_argnames=names)
            return compiled[names](*operands, **static)

        return run

    def _pays(self, operands: tuple, static: dict[str, Any], calls: Counter[Any]) -> bool:
        if self.loops or math.prod(static["shape"]) >= _COMPILED_SIZE:
            return True
        if not self.exact or state.trace is not EVAL_TRACE:
            return False
        dtype = static.get("dtype")
        if dtype is not None and dtype.kind in "fc" and dtype.itemsize > 4:
            return False  # float64 functions are NumPy's when eager, our own when compiled
        signature = tuple(static.values())
        if len(calls) >= _REMEMBERED:
            calls.clear()
        calls[signature] += 1
        return calls[signature] > _REPEATED


def is_array(x: Any) -> bool:
    """Whether `x` is an array, a NumPy array or a number."""
    return isinstance(x, Value | np.ndarray | np.generic | int | float | complex)
