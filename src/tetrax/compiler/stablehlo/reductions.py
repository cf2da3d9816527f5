"""StableHLO of reductions, windows, running reductions, sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import errors
from tetrax.compiler.stablehlo.elementwise import ElementwiseRules, Outs
from tetrax.ir.stablehlo import Handle, boolean, i64, i64_array, pairs
from tetrax.ir.types import ShapedArray
from tetrax.ops import axes as ax
from tetrax.ops.base import dtype_kind, real_dtype
from tetrax.ops.bits_and_compare import bitwise_or, eq, ge_p, ne
from tetrax.ops.creation import broadcasted_iota
from tetrax.ops.identities import largest, smallest
from tetrax.ops.reduce import reduce_max, reduce_min
from tetrax.ops.select import select
from tetrax.ops.structure import broadcast_in_dim, full
from tetrax.tracing.value import get_aval

_FLAG = ShapedArray((), np.bool_)
_IDENTITIES: dict[str, Callable[[Any], Any]] = {
    "add": lambda dtype: 0,
    "multiply": lambda dtype: 1,
    "and": lambda dtype: np.invert(np.zeros((), dtype)),
    "or": lambda dtype: 0,
    "xor": lambda dtype: 0,
    "maximum": smallest,
    "minimum": largest,
}


def is_narrow(dtype: Any) -> bool:
    """Whether sums of the dtype are better made in float32."""
    return dtype_kind(dtype) == "f" and dtype.itemsize < 4


class ReductionRules(ElementwiseRules):
    """Everything that runs a small function over many elements."""

    def combiner(self, mnemonic: str, dtype: Any) -> str:
        """A region of two scalars giving one."""
        aval = ShapedArray((), dtype)
        if dtype_kind(dtype) == "c" and mnemonic in ("maximum", "minimum"):
            first = mnemonic == "maximum"
            return self.region([aval, aval], lambda xy: [self._complex_extremum(first, *xy)])
        return self.region([aval, aval], lambda xy: [self.op(mnemonic, xy, [aval])])

    def _complex_extremum(self, largest_first: bool, x: Handle, y: Handle) -> Handle:
        direction = "GT" if largest_first else "LT"
        taken = self._lexicographic(direction, self._parts(x), self._parts(y))
        return self.op("select", [taken, x, y], [x.aval])

    def _parts(self, x: Handle) -> list[Handle]:
        part = x.aval.update(dtype=real_dtype(x.dtype))
        return [self.op(name, [x], [part]) for name in ("real", "imag")]

    def _lexicographic(
        self, direction: str, xs: Sequence[Handle], ys: Sequence[Handle], total: bool = False
    ) -> Handle:
        """Whether `xs` comes strictly before `ys` in `direction`; the first difference decides."""
        result = None
        for x, y in reversed(list(zip(xs, ys, strict=True))):
            strict = self.compare(direction, [x, y], [_FLAG], total_order=total)
            if result is not None:
                same = self.compare("EQ", [x, y], [_FLAG], total_order=total)
                rest = self.op("and", [same, result], [_FLAG])
                strict = self.op("or", [strict, rest], [_FLAG])
            result = strict
        assert result is not None
        return result

    def reduce(
        self, mnemonic: str, operands: Sequence[Handle], outs: Outs, axes: Sequence[int]
    ) -> Handle:
        (x,), (out,) = operands, outs
        wide = np.dtype(np.float32) if is_narrow(x.dtype) else x.dtype
        x = self.convert([x], [x.aval.update(dtype=wide)])
        start = _IDENTITIES[mnemonic](wide)
        if dtype_kind(wide) == "c" and mnemonic in ("maximum", "minimum"):
            edge = -np.inf if mnemonic == "maximum" else np.inf
            start = complex(edge, edge)
        total = self.op(
            "reduce",
            [x, self.scalar(start, wide)],
            [out.update(dtype=wide)],
            [self.combiner(mnemonic, wide)],
            dimensions=i64_array(axes),
        )
        return self.convert([total], outs)

    def arg_extremum(
        self, name: str, operands: Sequence[Handle], outs: Outs, axis: int, index_dtype: Any
    ) -> Handle:
        """The first place of the extremum, or of a NaN."""
        shape = operands[0].shape
        reduce = reduce_max if name == "argmax" else reduce_min
        kept = tuple(i for i in range(len(shape)) if i != axis)

        def place(x: Any) -> list[Any]:
            found = eq(x, broadcast_in_dim(reduce(x, (axis,)), shape, kept))
            if dtype_kind(get_aval(x).dtype) == "f":
                found = bitwise_or(found, ne(x, x))
            end = full(shape, shape[axis], index_dtype)
            return [
                reduce_min(select(found, broadcasted_iota(index_dtype, shape, axis), end), (axis,))
            ]

        return self.compose(place, *operands)[0]

    # -- windows -------------------------------------------------------------------------------

    def reduce_window(
        self,
        mnemonic: str,
        operands: Sequence[Handle],
        outs: Outs,
        identity: Callable[[Any], Any],
        **params: Any,
    ) -> Handle:
        (x,), (out,) = operands, outs
        wide = np.dtype(np.float32) if is_narrow(x.dtype) else x.dtype
        x = self.convert([x], [x.aval.update(dtype=wide)])
        total = self.op(
            "reduce_window",
            [x, self.scalar(identity(wide), wide)],
            [out.update(dtype=wide)],
            [self.combiner(mnemonic, wide)],
            **_windows(params),
        )
        return self.convert([total], outs)

    def select_and_gather_add(
        self, operands: Sequence[Handle], outs: Outs, *, select_prim: Any, **params: Any
    ) -> Handle:
        """A window reduction of pairs: the better element brings its tangent along."""
        tangents, x = operands
        value, tangent = (ShapedArray((), v.dtype) for v in (x, tangents))
        upwards = select_prim is ge_p
        start = smallest(x.dtype) if upwards else largest(x.dtype)

        def body(pair: list[Handle]) -> list[Handle]:
            best, carried, new, offered = pair
            keep = self.compare("GE" if upwards else "LE", [best, new], [_FLAG])
            return [
                self.op("select", [keep, best, new], [value]),
                self.op("select", [keep, carried, offered], [tangent]),
            ]

        starts = [self.scalar(start, x.dtype), self.scalar(0, tangents.dtype)]
        results = self.op(
            "reduce_window",
            [x, tangents, *starts],
            [outs[0].update(dtype=x.dtype), outs[0]],
            [self.region([value, tangent] * 2, body)],
            **_windows(params),
        )
        return results[1]

    def select_and_scatter_add(
        self, operands: Sequence[Handle], outs: Outs, *, select_prim: Any, **params: Any
    ) -> Handle:
        source, x = operands
        if any(n != 1 for key in ("base_dilation", "window_dilation") for n in params.get(key, ())):
            raise errors.MissingRule("select_and_scatter_add", "stablehlo of dilated windows", "")
        value = ShapedArray((), x.dtype)
        direction = "GE" if select_prim is ge_p else "LE"
        chooser = self.region([value, value], lambda xy: [self.compare(direction, xy, [_FLAG])])
        return self.op(
            "select_and_scatter",
            [x, source, self.scalar(0, source.dtype)],
            outs,
            [chooser, self.combiner("add", source.dtype)],
            window_dimensions=i64_array(params["window_dimensions"]),
            window_strides=i64_array(params["window_strides"]),
            padding=pairs(params["padding"]),
        )

    # -- order ---------------------------------------------------------------------------------

    def _sort_keys(self, x: Handle) -> list[Handle]:
        """Scalars whose total order is the order of sorting: -0 is 0, NaN comes last."""
        if dtype_kind(x.dtype) == "c":
            return [key for part in self._parts(x) for key in self._sort_keys(part)]
        if dtype_kind(x.dtype) != "f":
            return [x]
        zero = self.splat(0, x.aval)
        is_zero = self.compare("EQ", [x, zero], [_FLAG])
        x = self.op("select", [is_zero, zero, x], [x.aval])
        is_nan = self.compare("NE", [x, x], [_FLAG])
        return [self.op("select", [is_nan, self.splat(np.nan, x.aval), x], [x.aval])]

    def _sorted(
        self,
        operands: Sequence[Handle],
        outs: Outs,
        dimension: int,
        is_stable: bool,
        num_keys: int,
        direction: str,
        by_bits: bool = False,
    ) -> list[Handle]:
        """Sorts operands; `by_bits` tells floats of different bits apart, NaNs by their sign."""
        keys_of = (lambda x: [x]) if by_bits else self._sort_keys
        scalars = [ShapedArray((), x.dtype) for x in operands for _ in range(2)]

        def body(pairs: list[Handle]) -> list[Handle]:
            sides = [
                [key for x in pairs[side : 2 * num_keys : 2] for key in keys_of(x)]
                for side in range(2)
            ]
            return [self._lexicographic(direction, *sides, total=True)]

        found = self.op(
            "sort",
            operands,
            outs,
            [self.region(scalars, body)],
            dimension=i64(dimension),
            is_stable=boolean(is_stable),
        )
        return found if isinstance(found, list) else [found]

    def sort(
        self,
        operands: Sequence[Handle],
        outs: Outs,
        dimension: int,
        is_stable: bool,
        num_keys: int,
    ) -> list[Handle]:
        if not operands[0].shape:
            return list(operands)
        return self._sorted(operands, outs, dimension, is_stable, num_keys, "LT")

    def top_k(self, operands: Sequence[Handle], outs: Outs, k: int, axis: int) -> list[Handle]:
        """The first `k` of a stable descending sort, and where they came from."""
        (x,) = operands
        places = x.aval.update(dtype=np.dtype(np.int32))
        positions = self.op("iota", [], [places], iota_dimension=i64(axis))
        found = self._sorted([x, positions], [x.aval, places], axis, True, 1, "GT", True)
        rank = len(x.shape)
        return [
            self.op(
                "slice",
                [value],
                [out],
                start_indices=i64_array((0,) * rank),
                limit_indices=i64_array(ax.replace(x.shape, axis, k)),
                strides=i64_array((1,) * rank),
            )
            for value, out in zip(found, outs, strict=True)
        ]


def _windows(params: dict[str, Any]) -> dict[str, str]:
    return {
        "window_dimensions": i64_array(params["window_dimensions"]),
        "window_strides": i64_array(params["window_strides"]),
        "base_dilations": i64_array(params["base_dilation"]),
        "window_dilations": i64_array(params["window_dilation"]),
        "padding": pairs(params["padding"]),
    }
