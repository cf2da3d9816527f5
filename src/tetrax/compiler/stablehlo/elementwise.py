"""StableHLO of operations on elements that need more than a mnemonic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax.compiler.stablehlo.base import Writer
from tetrax.ir.stablehlo import Handle, enum
from tetrax.ir.types import ShapedArray
from tetrax.ops.base import dtype_kind, real_dtype

Outs = Sequence[ShapedArray]
_COMPARISONS = {"f": "FLOAT", "c": "FLOAT", "i": "SIGNED", "u": "UNSIGNED", "b": "UNSIGNED"}


class ElementwiseRules(Writer):
    """Comparisons, conversions, powers and selections."""

    def compare(
        self, direction: str, operands: Sequence[Handle], outs: Outs, total_order: bool = False
    ) -> Handle:
        """EQ, NE, LT, LE, GT or GE; floats may be compared in the total order of their bits."""
        kind = dtype_kind(operands[0].dtype)
        compare_type = _COMPARISONS.get(kind, "UNSIGNED")
        if total_order and kind == "f":
            compare_type = "TOTALORDER"
        return self.op(
            "compare",
            operands,
            outs,
            comparison_direction=enum("comparison_direction", direction),
            compare_type=enum("comparison_type", compare_type),
        )

    def convert(self, operands: Sequence[Handle], outs: Outs) -> Handle:
        """To bool by comparing with 0, from complex to real by the real part."""
        (x,), (out,) = operands, outs
        if out.dtype == x.dtype:
            return x
        source, target = dtype_kind(x.dtype), dtype_kind(out.dtype)
        if target == "b":
            return self.compare("NE", [x, self.splat(0, x.aval)], outs)
        if source == "c" and target != "c":
            x = self.op("real", [x], [x.aval.update(dtype=real_dtype(x.dtype))])
        return self.op("convert", [x], outs)

    def conj(self, operands: Sequence[Handle], outs: Outs) -> Handle:
        (x,) = operands
        if dtype_kind(x.dtype) == "c":
            return self.chlo("conj", operands, outs)
        return self.op("complex", [x, self.splat(0, x.aval)], outs)

    def exp2(self, operands: Sequence[Handle], outs: Outs) -> Handle:
        (x,) = operands
        if dtype_kind(x.dtype) == "c":
            scaled = self.op("multiply", [x, self.splat(math.log(2.0), x.aval)], outs)
            return self.op("exponential", [scaled], outs)
        return self.op("power", [self.splat(2, x.aval), x], outs)

    def power(self, operands: Sequence[Handle], outs: Outs) -> Handle:
        x, y = operands
        y = self.convert([y], [y.aval.update(dtype=x.dtype)])
        return self.op("power", [x, y], outs)

    def integer_pow(self, operands: Sequence[Handle], outs: Outs, y: int) -> Handle:
        """Repeated squaring."""
        (x,) = operands
        one = self.splat(1, x.aval)
        result, exponent = None, abs(y)
        while exponent:
            if exponent & 1:
                result = x if result is None else self.op("multiply", [result, x], outs)
            exponent >>= 1
            if exponent:
                x = self.op("multiply", [x, x], outs)
        result = one if result is None else result
        return self.op("divide", [one, result], outs) if y < 0 else result

    def fma(self, operands: Sequence[Handle], outs: Outs) -> Handle:
        """One rounding for floats below 64 bits; two for float64, where StableHLO has no more."""
        wide = outs[0].update(dtype=np.float64)
        x, y, z = (self.convert([v], [wide]) for v in operands)
        total = self.op("add", [self.op("multiply", [x, y], [wide]), z], [wide])
        return self.convert([total], outs)

    def sign(self, operands: Sequence[Handle], outs: Outs) -> Handle:
        (x,) = operands
        if dtype_kind(x.dtype) != "u":
            return self.op("sign", operands, outs)
        positive = self.compare("NE", [x, self.splat(0, x.aval)], [outs[0].update(dtype=np.bool_)])
        return self.op("convert", [positive], outs)

    def absolute(self, operands: Sequence[Handle], outs: Outs) -> Any:
        if dtype_kind(operands[0].dtype) == "u":
            return operands[0]
        return self.op("abs", operands, outs)

    def population_count(self, operands: Sequence[Handle], outs: Outs) -> Handle:
        """Narrow integers are counted in a byte, without the copies of their sign bit."""
        (x,) = operands
        bits = dtypes.itemsize_bits(x.dtype)
        if bits >= 8:
            return self.op("popcnt", operands, outs)
        byte = x.aval.update(dtype=np.dtype(np.uint8))
        wide = self.op("convert", [x], [byte])
        kept = self.op("and", [wide, self.splat((1 << bits) - 1, byte)], [byte])
        return self.op("convert", [self.op("popcnt", [kept], [byte])], outs)

    def select_n(self, operands: Sequence[Handle], outs: Outs) -> Handle:
        """`which` chooses: a bool between two cases, an int32 among many."""
        which, *cases = operands
        if len(cases) == 1:
            return cases[0]
        if which.dtype == np.bool_:
            return self.op("select", [which, cases[1], cases[0]], outs)
        result = cases[-1]
        flag = which.aval.update(dtype=np.bool_)
        for number in range(len(cases) - 2, -1, -1):
            taken = self.compare("LE", [which, self.splat(number, which.aval)], [flag])
            result = self.op("select", [taken, cases[number], result], outs)
        return result
