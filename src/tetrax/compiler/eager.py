"""Seam 1: what runs an operation outside any transformation.

An operation with a NumPy reference runs it at once; the others are compiled, with a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax.ir.types import ShapedArray
from tetrax.runtime.array import Array, as_value, wrap
from tetrax.tracing.primitive import Primitive

_types: dict[Any, list[ShapedArray]] = {}
_TYPES_LIMIT = 20_000


def evaluate(primitive: Primitive, args: Sequence[Any], params: dict) -> Any:
    """The value of `primitive` on concrete operands."""
    arrays: list[Any] = [x if type(x) is Array else as_value(x) for x in args]
    reference = primitive.reference
    out_avals = result_types(primitive, [x.aval for x in arrays], params)
    with np.errstate(all="ignore"):
        outs = reference(*[x._value for x in arrays], **params)
    if primitive.multiple_results:
        return [_result(out, aval) for out, aval in zip(outs, out_avals, strict=True)]
    return _result(outs, out_avals[0])


def _result(out: Any, aval: ShapedArray) -> Array:
    if type(out) is not np.ndarray:
        out = np.asarray(out)
    dtype = aval.dtype
    storage = dtype.storage if isinstance(dtype, dtypes.ExtendedDType) else dtype
    if out.dtype != storage:
        out = out.astype(storage)
    return wrap(out, aval)


def result_types(
    primitive: Primitive, avals: Sequence[ShapedArray], params: dict
) -> list[ShapedArray]:
    """`primitive.out_avals`, remembered per operand types and parameters."""
    try:
        key = (primitive, *avals, *params.items()) if params else (primitive, *avals)
        found = _types.get(key)
    except TypeError:  # a parameter without a hash
        return primitive.out_avals(avals, params)
    if found is None:
        if len(_types) >= _TYPES_LIMIT:
            _types.clear()
        found = _types[key] = primitive.out_avals(avals, params)
    return found
