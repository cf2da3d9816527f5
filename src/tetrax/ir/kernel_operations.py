"""Checked constructors of arithmetic, comparison, conversion and function nodes; re-exported by
`ir/kernel.py`.

Each checks types, folds constants, applies identities that change no floating-point value, and
keeps index arithmetic canonical.
"""

from __future__ import annotations

from tetrax.errors import KernelError
from tetrax.ir.kernel_constants import (
    const,
    const_from_bits,
    const_value,
    fold_binary,
    fold_convert,
    is_const,
    wrap,
)
from tetrax.ir.kernel_expr import Expr, ExprLike, make, new_variable
from tetrax.ir.kernel_index import (
    add_index,
    divide_index,
    interval_of,
    multiply_index,
    remainder_index,
)
from tetrax.ir.kernel_statements import as_expr, failure
from tetrax.ir.kernel_types import BOOL, I64, ScalarType, signed_of, unsigned_of

UNARY_FLOAT_OPS = ("floor", "ceil", "trunc", "round_even", "sqrt")
TRANSCENDENTAL_UNARY = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "erf_inv",
    "cbrt",
    "rsqrt",
    "logistic",
    "lgamma",
    "digamma",
)
TRANSCENDENTAL_BINARY = ("pow", "atan2")
ARITHMETIC_OPS = ("add", "sub", "mul", "div", "rem", "min", "max")
BITWISE_OPS = ("and", "or", "xor")
SHIFT_OPS = ("shl", "shr_logical", "shr_arithmetic")
COMPARE_OPS = ("eq", "ne", "lt", "le", "gt", "ge")
FLOAT_BINARY_OPS = ("copysign", "nextafter")

_BOOL_MEANING = {"add": "or", "mul": "and", "min": "and", "max": "or", "sub": "xor"}
_COMMUTATIVE = ("add", "mul", "min", "max", "and", "or", "xor", "eq", "ne")


def variable(name: str, type: ScalarType) -> Expr:
    """A fresh scalar variable, for a carried value or a kernel's scalar parameter."""
    return new_variable(name, type)


def index_variable(name: str, extent: ExprLike | None = None) -> Expr:
    """A fresh i64 loop variable; a known extent lets index arithmetic simplify."""
    upper: int | None = None
    if isinstance(extent, int):
        upper = extent - 1
    elif isinstance(extent, Expr):
        bounds = interval_of(extent)
        upper = None if bounds is None else bounds[1] - 1
    return new_variable(
        name, I64, None if upper is None else 0, None if upper is None else max(upper, 0)
    )


def _pair(op: str, a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    """Two operands of one type; a Python scalar takes the type of the other operand."""
    if isinstance(a, Expr):
        if isinstance(b, Expr):
            if a.type is not b.type:
                raise failure(op, "operands must have one type", a, b)
            return a, b
        return a, const(b, a.type)
    if isinstance(b, Expr):
        return const(a, b.type), b
    raise KernelError(f"{op}: at least one operand must be an expression, got {a!r} and {b!r}")


def _binary(op: str, a: ExprLike, b: ExprLike, data: str | None = None) -> Expr:
    left, right = _pair(op, a, b)
    type = left.type
    if type.is_storage:
        raise failure(op, "narrow floats must be converted to f32 first", left, right)
    if type.is_bool:
        op = _BOOL_MEANING.get(op, op)
        if op not in BITWISE_OPS:
            raise failure(op, "not defined on bool", left, right)
    if left.op == "const" and right.op == "const":
        folded = fold_binary(op, left, right)
        if folded is not None:
            return folded
    ordered = type.is_float and op in ("min", "max")  # which zero wins depends on the order
    if op in _COMMUTATIVE and not ordered and _order(left) > _order(right):
        left, right = right, left  # constants last, so that x*2 and 2*x are one node
    if not type.is_float:
        simpler = _simplify_integer(op, left, right)
        if simpler is not None:
            return simpler
    elif op == "mul" and right.op == "const" and const_value(right) == 1.0:
        return left
    return make(op, type, (left, right), data)


def _order(node: Expr) -> tuple[bool, int]:
    return node.op == "const", node.serial


def _simplify_integer(op: str, a: Expr, b: Expr) -> Expr | None:
    """Identities that hold for wrapping integers and bools."""
    if a.type is I64 and op in _INDEX_RULES:
        found = _INDEX_RULES[op](a, b)
        if found is not None or op not in ("min", "max"):
            return found
    zero, one = is_const(b, 0), is_const(b, 1)
    if zero and op in ("add", "sub", "or", "xor", *SHIFT_OPS):
        return a
    if zero and op in ("mul", "and"):
        return b
    if one and op in ("mul", "div"):
        return a
    if is_const(b) and op in ("and", "or") and b.data == wrap_all_ones(b.type):
        return a if op == "and" else b
    if a is b and op in ("and", "or", "min", "max"):
        return a
    if a is b and op in ("sub", "xor"):
        return const(0, a.type)
    return None


def wrap_all_ones(type: ScalarType) -> int | bool:
    """The constant value whose bits are all set."""
    return True if type.is_bool else wrap(-1, type)


def _extreme_index(a: Expr, b: Expr, smaller: bool) -> Expr | None:
    """The smaller or larger of two index expressions where their ranges tell."""
    bounds = interval_of(add_index(a, b, -1))
    if bounds is None or bounds[0] < 0 < bounds[1]:
        return None
    below = bounds[1] <= 0  # a <= b
    return a if below == smaller else b


_INDEX_RULES = {
    "min": lambda a, b: _extreme_index(a, b, True),
    "max": lambda a, b: _extreme_index(a, b, False),
    "add": lambda a, b: add_index(a, b),
    "sub": lambda a, b: add_index(a, b, -1),
    "mul": multiply_index,
    "div": divide_index,
    "rem": remainder_index,
}


# --- arithmetic ---


def add(a: ExprLike, b: ExprLike, *, strict: bool = False) -> Expr:
    """Sum. A `strict` float operation is never contracted into an fma (for error-free
    transformations).
    """
    return _binary("add", a, b, "strict" if strict else None)


def sub(a: ExprLike, b: ExprLike, *, strict: bool = False) -> Expr:
    """Difference; `strict` as for `add`."""
    return _binary("sub", a, b, "strict" if strict else None)


def mul(a: ExprLike, b: ExprLike, *, strict: bool = False) -> Expr:
    """Product; `strict` as for `add`."""
    return _binary("mul", a, b, "strict" if strict else None)


def div(a: ExprLike, b: ExprLike) -> Expr:
    """Quotient; integers truncate towards zero and never trap."""
    return _binary("div", a, b)


def rem(a: ExprLike, b: ExprLike) -> Expr:
    """Remainder with the sign of the dividend."""
    return _binary("rem", a, b)


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    """Smaller operand, NaN if one is NaN."""
    return _binary("min", a, b)


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    """Larger operand, NaN if one is NaN."""
    return _binary("max", a, b)


def fma(a: Expr, b: ExprLike, c: ExprLike) -> Expr:
    """`a * b + c` with one rounding; f32 and f64 only."""
    if not a.type.is_float:
        raise failure("fma", "needs f32 or f64", a)
    return make("fma", a.type, (a, as_expr(b, a.type), as_expr(c, a.type)))


def neg(a: Expr) -> Expr:
    """Negation; for floats the sign bit is flipped, also of NaN and zero."""
    if a.type.is_float:
        if a.op == "const":
            return const_from_bits(a.data ^ (1 << (a.type.bits - 1)), a.type)
        return a.args[0] if a.op == "neg" else make("neg", a.type, (a,))
    if not a.type.is_integer:
        raise failure("neg", "needs an integer, f32 or f64", a)
    return sub(const(0, a.type), a)


def absolute(a: Expr) -> Expr:
    """Absolute value; the smallest signed integer stays as it is."""
    if a.type.kind in ("uint", "bool"):
        return a
    if a.type.is_storage:
        raise failure("abs", "narrow floats must be converted to f32 first", a)
    return make("abs", a.type, (a,))


def logical_not(a: Expr) -> Expr:
    """Bitwise complement of an integer, negation of a bool."""
    if a.type.is_bool:
        if a.op == "const":
            return const(not a.data, BOOL)
        return a.args[0] if a.op == "not" else make("not", BOOL, (a,))
    if not a.type.is_integer:
        raise failure("not", "needs an integer or bool", a)
    return bit_xor(a, const(-1, a.type))


def _bitwise(op: str, a: ExprLike, b: ExprLike) -> Expr:
    left, right = _pair(op, a, b)
    if not (left.type.is_integer or left.type.is_bool):
        raise failure(op, "needs integers or bools", left, right)
    return _binary(op, left, right)


def bit_and(a: ExprLike, b: ExprLike) -> Expr:
    """Bitwise and."""
    return _bitwise("and", a, b)


def bit_or(a: ExprLike, b: ExprLike) -> Expr:
    """Bitwise or."""
    return _bitwise("or", a, b)


def bit_xor(a: ExprLike, b: ExprLike) -> Expr:
    """Bitwise exclusive or."""
    return _bitwise("xor", a, b)


def _shift(op: str, a: Expr, b: ExprLike) -> Expr:
    if not a.type.is_integer:
        raise failure(op, "needs an integer", a)
    return _binary(op, a, b)


def shl(a: Expr, b: ExprLike) -> Expr:
    """Shift left; by the width or more (or a negative count) gives 0."""
    return _shift("shl", a, b)


def shr_logical(a: Expr, b: ExprLike) -> Expr:
    """Shift right filling with zeros, whatever the signedness of the type."""
    return _shift("shr_logical", a, b)


def shr_arithmetic(a: Expr, b: ExprLike) -> Expr:
    """Shift right filling with the top bit, whatever the signedness of the type."""
    return _shift("shr_arithmetic", a, b)


def popcount(a: Expr) -> Expr:
    """Number of set bits, in the operand's type."""
    if not a.type.is_integer:
        raise failure("popcount", "needs an integer", a)
    return make("popcount", a.type, (a,))


def clz(a: Expr) -> Expr:
    """Number of leading zeros, in the operand's type; the width for 0."""
    if not a.type.is_integer:
        raise failure("clz", "needs an integer", a)
    return make("clz", a.type, (a,))


# --- comparison, selection, conversion ---


def compare(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """One of eq ne lt le gt ge; signedness comes from the type, bools compare as 0 and 1."""
    left, right = _pair(op, a, b)
    if op not in COMPARE_OPS:
        raise KernelError(f"compare: {op!r} is none of {', '.join(COMPARE_OPS)}")
    if left.type.is_storage:
        raise failure(op, "narrow floats must be converted to f32 first", left, right)
    if left.op == "const" and right.op == "const":
        folded = fold_binary(op, left, right)
        if folded is not None:
            return folded
    if op in _COMMUTATIVE and _order(left) > _order(right):
        left, right = right, left
    if left.type is I64:
        decided = _compare_ranges(op, left, right)
        if decided is not None:
            return const(decided, BOOL)
    return make(op, BOOL, (left, right))


def _compare_ranges(op: str, a: Expr, b: Expr) -> bool | None:
    """The answer of a comparison that the ranges of loop variables decide."""
    bounds = interval_of(add_index(a, b, -1))
    if bounds is None:
        return None
    lower, upper = bounds
    always = {"lt": upper < 0, "le": upper <= 0, "gt": lower > 0, "ge": lower >= 0}
    never = {"lt": lower >= 0, "le": lower > 0, "gt": upper <= 0, "ge": upper < 0}
    outside = lower > 0 or upper < 0
    always["ne"] = never["eq"] = outside
    always["eq"] = never["ne"] = lower == upper == 0
    if always[op]:
        return True
    return False if never[op] else None


def eq(a: ExprLike, b: ExprLike) -> Expr:
    """a == b; False for NaN."""
    return compare("eq", a, b)


def ne(a: ExprLike, b: ExprLike) -> Expr:
    """a != b; True for NaN."""
    return compare("ne", a, b)


def lt(a: ExprLike, b: ExprLike) -> Expr:
    """a < b."""
    return compare("lt", a, b)


def le(a: ExprLike, b: ExprLike) -> Expr:
    """a <= b."""
    return compare("le", a, b)


def gt(a: ExprLike, b: ExprLike) -> Expr:
    """a > b."""
    return compare("gt", a, b)


def ge(a: ExprLike, b: ExprLike) -> Expr:
    """a >= b."""
    return compare("ge", a, b)


def select(condition: Expr, a: ExprLike, b: ExprLike) -> Expr:
    """`a` where the condition holds, else `b`; both are evaluated."""
    left, right = _pair("select", a, b)
    if condition.type is not BOOL:
        raise failure("select", "the condition must be bool", condition)
    if condition.op == "const":
        return left if condition.data else right
    if left is right:
        return left
    if condition.op == "not":
        condition, left, right = condition.args[0], right, left
    return make("select", left.type, (condition, left, right))


def unlikely(condition: Expr, rare: Expr, usual: Expr) -> Expr:
    """`select` for a condition that seldom holds: `rare` is computed only where some lane needs
    it.
    """
    chosen = select(condition, rare, usual)
    if chosen.op != "select":
        return chosen
    return make("unlikely", usual.type, (condition, rare, usual))


def external(symbol: str, type: ScalarType, *args: Expr) -> Expr:
    """A call of a C function without side effects, such as one of the mathematics library."""
    return make("external", type, args, symbol)


def convert(a: Expr, to: ScalarType) -> Expr:
    """Value conversion between any two scalar types, rounded once."""
    if a.type is to:
        return a
    if a.op == "const":
        folded = fold_convert(a, to)
        if folded is not None:
            return folded
    return make("convert", to, (a,))


def bitcast(a: Expr, to: ScalarType) -> Expr:
    """The same bits seen as another type of the same width."""
    if a.type is to:
        return a
    if a.type.bits != to.bits or a.type.is_bool or to.is_bool:
        raise failure("bitcast", f"needs a type of the same width as {to}", a)
    if a.op == "bitcast":
        return bitcast(a.args[0], to)
    if a.op == "const":
        bits = a.data % (1 << a.type.bits)
        return make("const", to, (), wrap(bits, to) if to.is_integer else bits)
    return make("bitcast", to, (a,))


def bits_of(a: Expr) -> Expr:
    """The bits of a value as an unsigned integer."""
    return bitcast(a, unsigned_of(a.type.bits))


def signed_bits_of(a: Expr) -> Expr:
    """The bits of a value as a signed integer."""
    return bitcast(a, signed_of(a.type.bits))


# --- functions of floats ---


def unary(op: str, a: Expr) -> Expr:
    """A rounding, square root or transcendental function of an f32 or f64 value, by name.

    `op` is one of UNARY_FLOAT_OPS or TRANSCENDENTAL_UNARY.
    """
    if op not in UNARY_FLOAT_OPS and op not in TRANSCENDENTAL_UNARY:
        raise KernelError(f"unary: no operation named {op!r}")
    if not a.type.is_float:
        raise failure(op, "needs f32 or f64", a)
    return make(op, a.type, (a,))


def binary(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """Any two-operand operation by name: arithmetic, bitwise, shift, compare, copysign, pow, atan2
    …
    """
    if op in COMPARE_OPS:
        return compare(op, a, b)
    if op in BITWISE_OPS:
        return _bitwise(op, a, b)
    if op in ARITHMETIC_OPS:
        return _binary(op, a, b)
    left, right = _pair(op, a, b)
    if op in SHIFT_OPS:
        return _shift(op, left, right)
    if op not in FLOAT_BINARY_OPS and op not in TRANSCENDENTAL_BINARY:
        raise KernelError(f"binary: no operation named {op!r}")
    if not left.type.is_float:
        raise failure(op, "needs f32 or f64", left, right)
    return make(op, left.type, (left, right))


def is_finite(a: Expr) -> Expr:
    """Whether a float is neither infinite nor NaN."""
    if not a.type.is_float:
        raise failure("is_finite", "needs f32 or f64", a)
    return make("is_finite", BOOL, (a,))
