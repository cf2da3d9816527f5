"""Running reductions and random bits as programs in other operations.

A running reduction doubles the span that each element covers until it covers all before it: n log n
additions, and rounding errors that grow with log n only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax.compiler.stablehlo.reductions import ElementwiseRules, Outs, is_narrow
from tetrax.ir.stablehlo import Handle
from tetrax.ops.arithmetic import abs, add, max, min, mul, neg, sub
from tetrax.ops.bits_and_compare import bitwise_and, bitwise_not, eq
from tetrax.ops.convert import convert_element_type, is_finite
from tetrax.ops.identities import largest, smallest
from tetrax.ops.join import pad
from tetrax.ops.select import select
from tetrax.ops.structure import full
from tetrax.ops.transcendental import exp, log1p
from tetrax.tracing.value import get_aval


def _shifted(x: Any, axis: int, reverse: bool, distance: int, fill: Any) -> Any:
    """Each element's neighbour `distance` steps earlier; `fill` before the first."""
    aval = get_aval(x)
    row = (-distance, distance, 0) if reverse else (distance, -distance, 0)
    config = [row if i == axis else (0, 0, 0) for i in range(aval.ndim)]
    return pad(x, full((), fill, aval.dtype), config)


def _logaddexp(x: Any, y: Any) -> Any:
    value = add(max(x, y), log1p(exp(neg(abs(sub(x, y))))))
    # Equal infinities have no difference; the sum of such is the same infinity.
    same = bitwise_and(eq(x, y), bitwise_not(is_finite(x)))
    return select(same, x, value)


_STEPS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]] = {
    "cumsum": (add, lambda dtype: 0),
    "cumprod": (mul, lambda dtype: 1),
    "cummax": (max, smallest),
    "cummin": (min, largest),
    "cumlogsumexp": (_logaddexp, lambda dtype: -np.inf),
}


def _distances(size: int) -> list[int]:
    return [1 << i for i in range((size - 1).bit_length())] if size > 1 else []


class RunningRules(ElementwiseRules):
    """cumsum and its relatives."""

    def cumulative(
        self, name: str, operands: Sequence[Handle], outs: Outs, axis: int, reverse: bool
    ) -> Handle:
        (out,) = outs
        wide = np.dtype(np.float32) if is_narrow(out.dtype) else out.dtype

        def scan(x: Any) -> list[Any]:
            combine, identity = _STEPS[name]
            x = convert_element_type(x, wide)
            for distance in _distances(out.shape[axis]):
                x = combine(_shifted(x, axis, reverse, distance, identity(wide)), x)
            return [convert_element_type(x, out.dtype)]

        def recurrence(a: Any, b: Any) -> list[Any]:
            a, b = convert_element_type(a, wide), convert_element_type(b, wide)
            for distance in _distances(out.shape[axis]):
                b = add(mul(a, _shifted(b, axis, reverse, distance, 0)), b)
                a = mul(a, _shifted(a, axis, reverse, distance, 1))
            return [convert_element_type(b, out.dtype)]

        return self.compose(recurrence if name == "linear_recurrence" else scan, *operands)[0]
