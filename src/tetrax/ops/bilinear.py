"""Operations linear in each of two operands: products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tetrax.ops.arithmetic import add
from tetrax.ops.convert import convert_element_type
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.symbolic import Zero, is_undefined
from tetrax.tracing.value import get_aval


class Bilinear(Primitive):
    """`transpose_lhs(ct, lhs, rhs, **params)` and `transpose_rhs` give one operand's cotangent."""

    def transpose_lhs(self, ct: Any, lhs: Any, rhs: Any, **params: Any) -> Any:
        raise self.missing("transpose_lhs")

    def transpose_rhs(self, ct: Any, lhs: Any, rhs: Any, **params: Any) -> Any:
        raise self.missing("transpose_rhs")

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        lhs, rhs = primals
        t_lhs, t_rhs = tangents
        out = self.bind(lhs, rhs, **params)
        terms = []
        if type(t_lhs) is not Zero:
            terms.append(self.bind(t_lhs, rhs, **params))
        if type(t_rhs) is not Zero:
            terms.append(self.bind(lhs, t_rhs, **params))
        if not terms:
            return out, Zero.from_primal_value(out)
        return out, terms[0] if len(terms) == 1 else add(*terms)

    def transpose(self, ct: Any, lhs: Any, rhs: Any, **params: Any) -> list[Any]:
        unknown = lhs if is_undefined(lhs) else rhs
        if type(ct) is Zero:
            result: Any = Zero(unknown.aval)
        else:
            rule = self.transpose_lhs if is_undefined(lhs) else self.transpose_rhs
            result = rule(ct, lhs, rhs, **params)
            if get_aval(result).dtype != unknown.aval.dtype:
                result = convert_element_type(result, unknown.aval.dtype)
        return [result, None] if is_undefined(lhs) else [None, result]


__all__ = ["Bilinear"]
