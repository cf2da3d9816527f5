"""Index arithmetic: i64 expressions are kept as canonical affine sums, so that equal offsets are
equal nodes.

`affine_of` sees an expression as `sum(coefficient * term) + constant`; `from_affine` builds the one
node for such a sum. `interval_of` bounds an expression from the ranges of the loop variables in it,
which lets `divide` and `remainder` undo the flattening of shapes (`(4*i + j) / 4` is `i` where j <
4).
"""

from __future__ import annotations

from tetrax.ir.kernel_expr import Expr, VariableData, make
from tetrax.ir.kernel_types import I64

Terms = tuple[tuple[Expr, int], ...]
Affine = tuple[Terms, int]
Interval = tuple[int, int]

_MAX_TERMS = 24
"""Longer sums are left as they are: the canonical form would cost quadratic time."""

_I64_MIN, _I64_MAX = I64.minimum, I64.maximum


_small: dict[int, Expr] = {}
_MOST_SMALL = 4096


def index_constant(value: int) -> Expr:
    """The i64 constant of a value, wrapped to 64 bits."""
    found = _small.get(value)
    if found is None:
        found = _index_constant(value)
        if -_MOST_SMALL < value < _MOST_SMALL:
            _small[int(value)] = found
    return found


def _index_constant(value: int) -> Expr:
    value = (value - _I64_MIN) % (1 << 64) + _I64_MIN
    return make("const", I64, (), value)


def affine_of(node: Expr) -> Affine:
    """The affine view of an i64 expression: ((term, coefficient), ...) and a constant."""
    found = node.affine
    if found is None:
        found = _affine_of(node)
        node.affine = found
    return found


def _affine_of(node: Expr) -> Affine:
    if node.op == "const":
        return (), node.data
    if node.op == "add":
        return _combine(affine_of(node.args[0]), affine_of(node.args[1]), 1)
    if node.op == "mul" and node.args[1].op == "const":
        return _scale(affine_of(node.args[0]), node.args[1].data)
    return ((node, 1),), 0


def _combine(a: Affine, b: Affine, factor: int) -> Affine:
    coefficients = dict(a[0])
    for term, coefficient in b[0]:
        coefficients[term] = coefficients.get(term, 0) + factor * coefficient
    for term in [term for term in coefficients if term.op == "rem"]:
        whole = _undivided(term, coefficients)
        if whole is not None:
            rest = tuple((t, c) for t, c in coefficients.items() if c)
            return _combine((rest, a[1] + factor * b[1]), whole, 1)
    terms = tuple(
        sorted(
            ((term, c) for term, c in coefficients.items() if c),
            key=lambda item: item[0].serial,
        )
    )
    return terms, a[1] + factor * b[1]


def _undivided(remainder: Expr, coefficients: dict[Expr, int]) -> Affine | None:
    """`c * (x % d)`, where the sum holds `c * d * (x / d)` too, is `c * x`: takes both out of the
    sum and gives that.
    """
    divisor, coefficient = remainder.args[1], coefficients[remainder]
    if divisor.op != "const" or divisor.data == 0 or coefficient == 0:
        return None
    for term, other in coefficients.items():
        if term.op != "div" or other != coefficient * divisor.data or term.args[1] is not divisor:
            continue
        if _same_remainder(term.args[0], remainder.args[0], divisor.data):
            del coefficients[term], coefficients[remainder]
            return _scale(affine_of(term.args[0]), coefficient)
    return None


def _same_remainder(a: Expr, b: Expr, divisor: int) -> bool:
    """Whether `a % d` and `b % d` are equal: the same number, or both positive and d * n apart."""
    if a is b:
        return True
    terms, constant = _combine(affine_of(a), affine_of(b), -1)
    if divisor < 0 or constant % divisor or any(c % divisor for _, c in terms):
        return False
    bounds = interval_of(a), interval_of(b)
    return all(bound is not None and bound[0] >= 0 for bound in bounds)


def _scale(a: Affine, factor: int) -> Affine:
    if factor == 0:
        return (), 0
    return tuple((term, c * factor) for term, c in a[0]), a[1] * factor


def stride_of(offset: Expr, var: Expr) -> int | None:
    """By how much an offset moves with a variable; None where that is not a constant."""
    stride = 0
    for term, coefficient in affine_of(offset)[0]:
        if term is var:
            stride = coefficient
        elif var in term.free:
            return None
    return stride


def from_affine(view: Affine) -> Expr:
    """The canonical node of an affine view: terms in order of creation, the constant last."""
    terms, constant = view
    total: Expr | None = None
    for term, coefficient in terms:
        scaled = term if coefficient == 1 else make("mul", I64, (term, index_constant(coefficient)))
        total = scaled if total is None else make("add", I64, (total, scaled))
    if total is None:
        return index_constant(constant)
    if constant:
        total = make("add", I64, (total, index_constant(constant)))
    if total.affine is None:
        total.affine = view
    return total


def add_index(a: Expr, b: Expr, factor: int = 1) -> Expr:
    """`a + factor * b` in canonical form (factor is 1 or -1)."""
    left, right = affine_of(a), affine_of(b)
    if len(left[0]) + len(right[0]) > _MAX_TERMS:
        return make("add" if factor == 1 else "sub", I64, (a, b))
    return from_affine(_combine(left, right, factor))


def multiply_index(a: Expr, b: Expr) -> Expr:
    """`a * b` in canonical form: constants are distributed over sums."""
    if a.op == "const":
        a, b = b, a
    if b.op == "const":
        return from_affine(_scale(affine_of(a), b.data))
    first, second = sorted((a, b), key=lambda node: node.serial)
    return make("mul", I64, (first, second))


def _const_interval(node: Expr) -> Interval | None:
    return node.data, node.data


def _var_interval(node: Expr) -> Interval | None:
    data: VariableData = node.data
    if data.lower is None or data.upper is None:
        return None
    return data.lower, data.upper


def _sum_interval(node: Expr) -> Interval | None:
    return _affine_interval(affine_of(node))


def _div_interval(node: Expr) -> Interval | None:
    inner = interval_of(node.args[0])
    divisor = node.args[1]
    if inner is None or divisor.op != "const" or divisor.data <= 0 or inner[0] < 0:
        return None
    return inner[0] // divisor.data, inner[1] // divisor.data


def _rem_interval(node: Expr) -> Interval | None:
    inner = interval_of(node.args[0])
    divisor = node.args[1]
    if inner is None or divisor.op != "const" or divisor.data <= 0 or inner[0] < 0:
        return None
    return 0, min(inner[1], divisor.data - 1)


def _min_interval(node: Expr) -> Interval | None:
    a, b = interval_of(node.args[0]), interval_of(node.args[1])
    return None if a is None or b is None else (min(a[0], b[0]), min(a[1], b[1]))


def _max_interval(node: Expr) -> Interval | None:
    a, b = interval_of(node.args[0]), interval_of(node.args[1])
    return None if a is None or b is None else (max(a[0], b[0]), max(a[1], b[1]))


def _select_interval(node: Expr) -> Interval | None:
    a, b = interval_of(node.args[1]), interval_of(node.args[2])
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


_INTERVALS = {
    "const": _const_interval,
    "var": _var_interval,
    "add": _sum_interval,
    "mul": _sum_interval,
    "div": _div_interval,
    "rem": _rem_interval,
    "min": _min_interval,
    "max": _max_interval,
    "select": _select_interval,
}


def interval_of(node: Expr) -> Interval | None:
    """Inclusive bounds of an i64 expression's value, or None where they are not known."""
    if node.interval == ():  # not asked before; shared subexpressions must cost only once
        rule = _INTERVALS.get(node.op)
        node.interval = None if rule is None else rule(node)
    return node.interval


def _affine_interval(view: Affine) -> Interval | None:
    lower = upper = view[1]
    for term, coefficient in view[0]:
        bounds = interval_of(term) if term.op not in ("add", "mul") else None
        if bounds is None:
            return None
        first, second = coefficient * bounds[0], coefficient * bounds[1]
        lower += min(first, second)
        upper += max(first, second)
    if lower < _I64_MIN or upper > _I64_MAX:
        return None
    return lower, upper


def _split_by_divisor(view: Affine, divisor: int) -> tuple[Affine, Affine] | None:
    """`view = divisor * quotient + rest` with every rest value in [0, divisor), if provable."""
    terms, constant = view
    quotient = tuple((term, c // divisor) for term, c in terms if c % divisor == 0)
    rest = (
        tuple((term, c) for term, c in terms if c % divisor),
        constant % divisor,
    )
    bounds = _affine_interval(rest)
    if bounds is None or bounds[0] < 0 or bounds[1] >= divisor:
        return None
    return (quotient, constant // divisor), rest


def divide_index(a: Expr, b: Expr) -> Expr | None:
    """A simpler node for `a / b` where the ranges prove one, else None."""
    if b.op != "const" or b.data <= 0:
        return None
    if b.data == 1:
        return a
    view = affine_of(a)
    bounds = _affine_interval(view)
    if bounds is None or bounds[0] < 0:
        return None  # truncating division of negative values does not split
    split = _split_by_divisor(view, b.data)
    return None if split is None else from_affine(split[0])


def remainder_index(a: Expr, b: Expr) -> Expr | None:
    """A simpler node for `a % b` where the ranges prove one, else None."""
    if b.op != "const" or b.data <= 0:
        return None
    view = affine_of(a)
    bounds = _affine_interval(view)
    if bounds is None or bounds[0] < 0:
        return None
    split = _split_by_divisor(view, b.data)
    if split is not None:
        return from_affine(split[1])
    kept = tuple((term, c) for term, c in view[0] if c % b.data)
    rest = (kept, view[1] % b.data)
    smaller = _affine_interval(rest)
    if rest == view or smaller is None or smaller[0] < 0:
        return None
    return make("rem", I64, (from_affine(rest), b))
