"""Numbers to write formulas with, once for kernels, for StableHLO, and for derivatives.

`Real` is a number of some backend (scalar expressions of kernels, handles of StableHLO text) with
Python's operators. `Dual` is a number with its derivative by one variable, so that a formula
written for numbers also gives that derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tetrax.ir import kernel as k
from tetrax.ir.kernel_types import F64


class Backend(Protocol):
    """What numbers are made of. `iterate` runs a while loop on float64 values."""

    def constant(self, value: float, like: Any) -> Any: ...

    def apply(self, name: str, *operands: Any) -> Any: ...

    def iterate(
        self,
        initial: Sequence[Any],
        condition: Callable[[Sequence[Any]], Any],
        step: Callable[[Sequence[Any]], Sequence[Any]],
    ) -> Sequence[Any]: ...


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": k.add,
    "sub": k.sub,
    "mul": k.mul,
    "div": k.div,
    "pow": lambda x, y: k.binary("pow", x, y),
    "neg": k.neg,
    "abs": k.absolute,
    "lt": k.lt,
    "le": k.le,
    "eq": k.eq,
    "and": k.bit_and,
    "or": k.bit_or,
    "not": k.logical_not,
    "select": k.select,
}


class KernelBackend:
    """Scalar expressions of kernels, in float64."""

    def constant(self, value: float, like: Any) -> Any:
        return k.const(value, F64)

    def apply(self, name: str, *operands: Any) -> Any:
        operation = _OPERATIONS.get(name)
        return operation(*operands) if operation is not None else k.unary(name, *operands)

    def iterate(
        self,
        initial: Sequence[Any],
        condition: Callable[[Sequence[Any]], Any],
        step: Callable[[Sequence[Any]], Sequence[Any]],
    ) -> Sequence[Any]:
        variables = [k.variable(f"s{i}", F64) for i in range(len(initial))]
        rows = list(zip(variables, initial, step(variables), strict=True))
        return k.iterate(rows, condition(variables))


@dataclass(frozen=True, eq=False)
class Real:
    """A number, or a truth value, of a backend."""

    backend: Backend
    raw: Any

    def constant(self, value: float) -> Real:
        return Real(self.backend, self.backend.constant(value, self.raw))

    def _with(self, name: str, *others: Real | float) -> Real:
        raws = [self.raw, *(self._lifted(x).raw for x in others)]
        return Real(self.backend, self.backend.apply(name, *raws))

    def _arithmetic(self, name: str, other: Any) -> Any:
        # Duals know what to do with plain numbers, not the other way round.
        return NotImplemented if isinstance(other, Dual) else self._with(name, other)

    def _lifted(self, x: Real | float) -> Real:
        return x if isinstance(x, Real) else self.constant(x)

    def __add__(self, other: Real | float) -> Real:
        return self._arithmetic("add", other)

    __radd__ = __add__

    def __sub__(self, other: Real | float) -> Real:
        return self._arithmetic("sub", other)

    def __rsub__(self, other: float) -> Real:
        return self.constant(other) - self

    def __mul__(self, other: Real | float) -> Real:
        return self._arithmetic("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Real | float) -> Real:
        return self._arithmetic("div", other)

    def __rtruediv__(self, other: float) -> Real:
        return self.constant(other) / self

    def __pow__(self, other: Real | float) -> Real:
        return self._arithmetic("pow", other)

    def __neg__(self) -> Real:
        return self._with("neg")

    def __lt__(self, other: Real | float) -> Real:
        return self._with("lt", other)

    def __le__(self, other: Real | float) -> Real:
        return self._with("le", other)

    def __gt__(self, other: Real | float) -> Real:
        return self._lifted(other) < self

    def __ge__(self, other: Real | float) -> Real:
        return self._lifted(other) <= self

    def equals(self, other: Real | float) -> Real:
        return self._with("eq", other)

    def __and__(self, other: Real) -> Real:
        return self._with("and", other)

    def __or__(self, other: Real) -> Real:
        return self._with("or", other)

    def __invert__(self) -> Real:
        return self._with("not")

    @property
    def value(self) -> Real:
        return self


@dataclass(frozen=True, eq=False)
class Dual:
    """A number and its derivative."""

    value: Real
    tangent: Real

    def constant(self, value: float) -> Dual:
        return Dual(self.value.constant(value), self.value.constant(0.0))

    def _lifted(self, x: Any) -> Dual:
        if isinstance(x, Dual):
            return x
        if isinstance(x, Real):
            return Dual(x, x.constant(0.0))
        return self.constant(x)

    def __add__(self, other: Any) -> Dual:
        other = self._lifted(other)
        return Dual(self.value + other.value, self.tangent + other.tangent)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dual:
        other = self._lifted(other)
        return Dual(self.value - other.value, self.tangent - other.tangent)

    def __rsub__(self, other: Any) -> Dual:
        return self._lifted(other) - self

    def __mul__(self, other: Any) -> Dual:
        other = self._lifted(other)
        tangent = self.tangent * other.value + self.value * other.tangent
        return Dual(self.value * other.value, tangent)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Dual:
        other = self._lifted(other)
        quotient = self.value / other.value
        return Dual(quotient, (self.tangent - quotient * other.tangent) / other.value)

    def __rtruediv__(self, other: Any) -> Dual:
        return self._lifted(other) / self

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.tangent)

    def __lt__(self, other: Any) -> Real:
        return self.value < self._lifted(other).value

    def __gt__(self, other: Any) -> Real:
        return self.value > self._lifted(other).value

    def equals(self, other: Any) -> Real:
        return self.value.equals(self._lifted(other).value)


Number = Any  # Real or Dual

_DERIVATIVES: dict[str, Callable[[Real, Real], Real]] = {
    "exp": lambda x, out: out,
    "log": lambda x, out: 1.0 / x,
    "log1p": lambda x, out: 1.0 / (1.0 + x),
    "sqrt": lambda x, out: 0.5 / out,
    "lgamma": lambda x, out: function("digamma", x),
}


def function(name: str, x: Number) -> Number:
    """exp, log, log1p, sqrt, floor, abs, lgamma or digamma of a number."""
    if isinstance(x, Dual):
        out = function(name, x.value)
        return Dual(out, _DERIVATIVES[name](x.value, out) * x.tangent)
    return Real(x.backend, x.backend.apply(name, x.raw))


def where(condition: Real, x: Number, y: Number) -> Number:
    """`x` where the condition holds, else `y`; one of them may be a Python number."""
    number = x if isinstance(x, Dual) else y if isinstance(y, Dual) else condition
    if isinstance(number, Dual):
        x, y = number._lifted(x), number._lifted(y)
        values = where(condition, x.value, y.value)
        return Dual(values, where(condition, x.tangent, y.tangent))
    like: Any = x if isinstance(x, Real) else y
    x, y = like._lifted(x), like._lifted(y)
    return condition._with("select", x, y)


def negligible(term: Number, total: Number, limit: float = 1e-16) -> Real:
    """Whether a term changes the total no more, neither its value nor its derivative."""
    size = function("abs", total.value)
    done = function("abs", term.value) <= limit * size
    if isinstance(term, Dual):
        whole = size + function("abs", total.tangent)
        done = done & (function("abs", term.tangent) <= limit * whole)
    return done


def loop(
    initial: Sequence[Number],
    condition: Callable[..., Real],
    step: Callable[..., Sequence[Number]],
) -> list[Number]:
    """A while loop on numbers: the last state."""
    backend = initial[0].value.backend

    def flat(state: Sequence[Number]) -> list[Any]:
        return [part.raw for x in state for part in _parts(x)]

    def numbers(raws: Sequence[Any]) -> list[Number]:
        parts = iter(Real(backend, raw) for raw in raws)
        return [
            Dual(next(parts), next(parts)) if isinstance(x, Dual) else next(parts) for x in initial
        ]

    raws = backend.iterate(
        flat(initial),
        lambda raws: condition(*numbers(raws)).raw,
        lambda raws: flat(step(*numbers(raws))),
    )
    return numbers(raws)


def _parts(x: Number) -> tuple[Real, ...]:
    return (x.value, x.tangent) if isinstance(x, Dual) else (x,)


def kernel_rule(formula: Callable[..., Real]) -> Callable[..., Any]:
    """The scalar kernel of a formula: float64 inside, the operands' type outside."""
    backend = KernelBackend()

    def scalar(*operands: Any) -> Any:
        out = formula(*(Real(backend, k.convert(x, F64)) for x in operands))
        return k.convert(out.raw, operands[0].type)

    return scalar


def chebyshev(x: Number, coefficients: Sequence[float]) -> Number:
    """A Chebyshev series at x in [-1, 1], highest degree first; the last coefficient counts half.

    Clenshaw's recurrence.
    """
    twice = x + x
    before, current = x.constant(0.0), x.constant(coefficients[0])
    for coefficient in coefficients[1:-1]:
        before, current = current, twice * current - before + coefficient
    return x * current - before + 0.5 * coefficients[-1]
