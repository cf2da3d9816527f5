"""LLVM instructions of the operations that work lane by lane: one rule per operation, for scalars
and vectors.
"""

from __future__ import annotations

from collections.abc import Callable

from tetrax.compiler.cpu.emitter import Emitter, Rule
from tetrax.compiler.cpu.expansions import EXPANSIONS
from tetrax.compiler.cpu.functions import function_symbol
from tetrax.compiler.cpu.llvm_text import intrinsic_suffix, register_type, vector_text
from tetrax.ir.kernel_expr import Expr
from tetrax.ir.kernel_types import ScalarType


def _typed(emitter: Emitter, node: Expr) -> tuple[int, str, list[str]]:
    """(lanes, LLVM type of the first operand, operand texts) of a node whose operands have one
    type.
    """
    lanes = emitter.lanes_of(node)
    kind = register_type(node.args[0].type, lanes)
    return lanes, kind, [emitter.operand(arg, lanes) for arg in node.args]


def _instruction(float_name: str, signed_name: str, unsigned_name: str | None = None) -> Rule:
    """An operation with an instruction of its own per kind of type."""

    def rule(emitter: Emitter, node: Expr) -> str:
        _, kind, (a, b) = _typed(emitter, node)
        if node.type.is_float:
            return emitter.emit(f"{float_name} {kind} {a}, {b}")
        name = signed_name if node.type.is_signed or unsigned_name is None else unsigned_name
        return emitter.emit(f"{name} {kind} {a}, {b}")

    return rule


def _literal(value: int, lanes: int, scalar: str) -> str:
    return str(value) if lanes == 1 else f"splat ({scalar} {value})"


def _condition_type(lanes: int) -> str:
    return "i1" if lanes == 1 else f"<{lanes} x i1>"


def _select(emitter: Emitter, lanes: int, condition: str, kind: str, a: str, b: str) -> str:
    return emitter.emit(f"select {_condition_type(lanes)} {condition}, {kind} {a}, {kind} {b}")


def _division(result: str) -> Rule:
    """Integer division or remainder that never traps; `result` is 'div' or 'rem'."""

    def rule(emitter: Emitter, node: Expr) -> str:
        lanes, kind, (a, b) = _typed(emitter, node)
        if node.type.is_float:
            return emitter.emit(f"f{result} {kind} {a}, {b}")
        type, divisor = node.type, node.args[1]
        name = ("s" if type.is_signed else "u") + result
        if divisor.op == "const" and divisor.data not in (0, -1):
            return emitter.emit(f"{name} {kind} {a}, {b}")
        scalar = register_type(type)
        zero = emitter.emit(f"icmp eq {kind} {b}, {_literal(0, lanes, scalar)}")
        unusable = zero
        if type.is_signed:
            least = emitter.emit(f"icmp eq {kind} {a}, {_literal(type.minimum, lanes, scalar)}")
            minus = emitter.emit(f"icmp eq {kind} {b}, {_literal(-1, lanes, scalar)}")
            overflow = emitter.emit(f"and {_condition_type(lanes)} {least}, {minus}")
            unusable = emitter.emit(f"or {_condition_type(lanes)} {zero}, {overflow}")
        safe = _select(emitter, lanes, unusable, kind, _literal(1, lanes, scalar), b)
        quotient = emitter.emit(f"{name} {kind} {a}, {safe}")
        by_zero = a if result == "rem" else _literal(-1, lanes, scalar)
        return _select(emitter, lanes, zero, kind, by_zero, quotient)

    return rule


def _extreme(float_compare: str, signed_name: str, unsigned_name: str) -> Rule:
    def rule(emitter: Emitter, node: Expr) -> str:
        lanes, kind, (a, b) = _typed(emitter, node)
        if not node.type.is_float:
            name = signed_name if node.type.is_signed else unsigned_name
            suffix = intrinsic_suffix(node.type, lanes)
            return emitter.emit(f"call {kind} @llvm.{name}.{suffix}({kind} {a}, {kind} {b})")
        # the second operand wins ties and NaNs, like the machine's own instruction; then NaN of the
        # first
        before = emitter.emit(f"fcmp {float_compare} {kind} {a}, {b}")
        picked = _select(emitter, lanes, before, kind, a, b)
        unordered = emitter.emit(f"fcmp uno {kind} {a}, {a}")
        return _select(emitter, lanes, unordered, kind, a, picked)

    return rule


def _compare(float_name: str, signed_name: str, unsigned_name: str) -> Rule:
    def rule(emitter: Emitter, node: Expr) -> str:
        _, kind, (a, b) = _typed(emitter, node)
        type = node.args[0].type
        if type.is_float:
            return emitter.emit(f"fcmp {float_name} {kind} {a}, {b}")
        name = signed_name if type.is_signed else unsigned_name
        return emitter.emit(f"icmp {name} {kind} {a}, {b}")

    return rule


def _shift(name: str) -> Rule:
    def rule(emitter: Emitter, node: Expr) -> str:
        lanes, kind, (a, count) = _typed(emitter, node)
        type, amount = node.type, node.args[1]
        if amount.op == "const" and 0 <= amount.data < type.bits:
            return emitter.emit(f"{name} {kind} {a}, {count}")
        scalar, suffix = register_type(type), intrinsic_suffix(type, lanes)
        largest = _literal(type.bits - 1, lanes, scalar)
        # counts compare as unsigned, so that negative ones are too large
        limited = emitter.emit(f"call {kind} @llvm.umin.{suffix}({kind} {count}, {kind} {largest})")
        shifted = emitter.emit(f"{name} {kind} {a}, {limited}")
        if name == "ashr":
            return shifted
        fits = emitter.emit(f"icmp ule {kind} {count}, {largest}")
        return _select(emitter, lanes, fits, kind, shifted, _literal(0, lanes, scalar))

    return rule


def _intrinsic(name: str, flags: str = "") -> Rule:
    """An operation that is one overloaded intrinsic."""

    def rule(emitter: Emitter, node: Expr) -> str:
        lanes, kind, operands = _typed(emitter, node)
        texts = ", ".join(f"{kind} {text}" for text in operands)
        suffix = intrinsic_suffix(node.args[0].type, lanes)
        return emitter.emit(f"call {kind} @llvm.{name}.{suffix}({texts}{flags})")

    return rule


def _negate(emitter: Emitter, node: Expr) -> str:
    _, kind, (a,) = _typed(emitter, node)
    return emitter.emit(f"fneg {kind} {a}")


def _absolute(emitter: Emitter, node: Expr) -> str:
    return (_FABS if node.type.is_float else _IABS)(emitter, node)


_FABS = _intrinsic("fabs")
_IABS = _intrinsic("abs", ", i1 false")


def _not(emitter: Emitter, node: Expr) -> str:
    lanes, kind, (a,) = _typed(emitter, node)
    return emitter.emit(f"xor {kind} {a}, {'true' if lanes == 1 else 'splat (i1 true)'}")


def _is_finite(emitter: Emitter, node: Expr) -> str:
    lanes, kind, (a,) = _typed(emitter, node)
    suffix = intrinsic_suffix(node.args[0].type, lanes)
    size = emitter.emit(f"call {kind} @llvm.fabs.{suffix}({kind} {a})")
    infinity = "0x7FF0000000000000"
    scalar = register_type(node.args[0].type)
    limit = infinity if lanes == 1 else f"splat ({scalar} {infinity})"
    return emitter.emit(f"fcmp olt {kind} {size}, {limit}")


def _select_rule(emitter: Emitter, node: Expr) -> str:
    lanes = emitter.lanes_of(node)
    condition, a, b = node.args
    kind = register_type(node.type, lanes)
    uniform = emitter.lanes_of(condition) == 1
    test = emitter.operand(condition, 1 if uniform else lanes)
    if lanes > 1 and uniform and condition.op == "const":
        uniform = False
    x, y = emitter.operand(a, lanes), emitter.operand(b, lanes)
    return _select(emitter, 1 if uniform else lanes, test, kind, x, y)


def _bitcast(emitter: Emitter, node: Expr) -> str:
    lanes, kind, (a,) = _typed(emitter, node)
    to = register_type(node.type, lanes)
    return a if kind == to else emitter.emit(f"bitcast {kind} {a} to {to}")


def _family(type: ScalarType) -> str:
    return "int" if type.is_integer else type.kind


def _integer_to_integer(emitter: Emitter, node: Expr, lanes: int, a: str) -> str:
    source, to = node.args[0].type, node.type
    kind, target = register_type(source, lanes), register_type(to, lanes)
    if source.bits == to.bits:
        return a
    if source.bits > to.bits:
        return emitter.emit(f"trunc {kind} {a} to {target}")
    return emitter.emit(f"{'sext' if source.is_signed else 'zext'} {kind} {a} to {target}")


def _integer_to_float(emitter: Emitter, node: Expr, lanes: int, a: str) -> str:
    source = node.args[0].type
    name = "sitofp" if source.is_signed else "uitofp"
    target = register_type(node.type, lanes)
    return emitter.emit(f"{name} {register_type(source, lanes)} {a} to {target}")


def _bool_to_integer(emitter: Emitter, node: Expr, lanes: int, a: str) -> str:
    target = register_type(node.type, lanes)
    return emitter.emit(f"zext {_condition_type(lanes)} {a} to {target}")


def _integer_to_bool(emitter: Emitter, node: Expr, lanes: int, a: str) -> str:
    scalar = register_type(node.args[0].type)
    kind = register_type(node.args[0].type, lanes)
    return emitter.emit(f"icmp ne {kind} {a}, {_literal(0, lanes, scalar)}")


def _float_to_bool(emitter: Emitter, node: Expr, lanes: int, a: str) -> str:
    kind = register_type(node.args[0].type, lanes)
    return emitter.emit(
        f"fcmp une {kind} {a}, zeroinitializer" if lanes > 1 else f"fcmp une {kind} {a}, 0.0"
    )


def _float_to_integer(emitter: Emitter, node: Expr, lanes: int, a: str) -> str:
    source, to = node.args[0].type, node.type
    name = "fptosi" if to.is_signed else "fptoui"
    kind, target = register_type(source, lanes), register_type(to, lanes)
    suffixes = f"{intrinsic_suffix(to, lanes)}.{intrinsic_suffix(source, lanes)}"
    return emitter.emit(f"call {target} @llvm.{name}.sat.{suffixes}({kind} {a})")


def _float_to_float(emitter: Emitter, node: Expr, lanes: int, a: str) -> str:
    name = "fpext" if node.type.bits > node.args[0].type.bits else "fptrunc"
    kind, target = register_type(node.args[0].type, lanes), register_type(node.type, lanes)
    return emitter.emit(f"{name} {kind} {a} to {target}")


def _half_to_float(emitter: Emitter, node: Expr, lanes: int, a: str) -> str:
    half = vector_text("half", lanes)
    source, target = register_type(node.args[0].type, lanes), register_type(node.type, lanes)
    text = emitter.emit(f"bitcast {source} {a} to {half}")
    return emitter.emit(f"fpext {half} {text} to {target}")


def _float_to_half(emitter: Emitter, node: Expr, lanes: int, a: str) -> str:
    half = vector_text("half", lanes)
    source, target = register_type(node.args[0].type, lanes), register_type(node.type, lanes)
    text = emitter.emit(f"fptrunc {source} {a} to {half}")
    return emitter.emit(f"bitcast {half} {text} to {target}")


_CONVERSIONS: dict[tuple[str, str], Callable[[Emitter, Expr, int, str], str]] = {
    ("int", "int"): _integer_to_integer,
    ("int", "float"): _integer_to_float,
    ("int", "bool"): _integer_to_bool,
    ("bool", "int"): _bool_to_integer,
    ("bool", "float"): _integer_to_float,
    ("float", "int"): _float_to_integer,
    ("float", "bool"): _float_to_bool,
    ("float", "float"): _float_to_float,
    ("storage", "float"): _half_to_float,  # only f16 and f32, where the CPU converts them
    ("float", "storage"): _float_to_half,
}


def _convert(emitter: Emitter, node: Expr) -> str:
    lanes = emitter.lanes_of(node)
    source = node.args[0]
    rule = _CONVERSIONS[_family(source.type), _family(node.type)]
    return rule(emitter, node, lanes, emitter.operand(source, lanes))


def _external(emitter: Emitter, node: Expr) -> str:
    """A C function of scalars, called once per lane."""
    lanes = emitter.lanes_of(node)
    result = register_type(node.type)
    kinds = [register_type(arg.type) for arg in node.args]
    emitter.declarations.add(f"declare {result} @{node.data}({', '.join(kinds)})")
    operands = [emitter.operand(arg, lanes) for arg in node.args]
    if lanes == 1:
        texts = ", ".join(f"{kind} {text}" for kind, text in zip(kinds, operands, strict=True))
        return emitter.emit(f"call {result} @{node.data}({texts})")
    whole = "poison"
    vector = register_type(node.type, lanes)
    for lane in range(lanes):
        scalars = [
            emitter.emit(f"extractelement <{lanes} x {kind}> {text}, i64 {lane}")
            for kind, text in zip(kinds, operands, strict=True)
        ]
        texts = ", ".join(f"{kind} {text}" for kind, text in zip(kinds, scalars, strict=True))
        one = emitter.emit(f"call {result} @{node.data}({texts})")
        whole = emitter.emit(f"insertelement {vector} {whole}, {result} {one}, i64 {lane}")
    return whole


def _function(emitter: Emitter, node: Expr) -> str:
    """A routine of the library that computes all lanes."""
    lanes = emitter.lanes_of(node)
    symbol = function_symbol(node.op, node.type, lanes)
    result = register_type(node.type, lanes)
    kinds = [register_type(arg.type, lanes) for arg in node.args]
    attributes = "nounwind willreturn memory(none)"
    emitter.declarations.add(f"declare {result} @{symbol}({', '.join(kinds)}) {attributes}")
    operands = (emitter.operand(arg, lanes) for arg in node.args)
    texts = ", ".join(f"{kind} {text}" for kind, text in zip(kinds, operands, strict=True))
    return emitter.emit(f"call {result} @{symbol}({texts})")


FUNCTION_RULES: dict[str, Rule] = dict.fromkeys(EXPANSIONS, _function)
"""What is left of the operations that have expansions is calls."""

SCALAR_RULES: dict[str, Rule] = {
    "add": _instruction("fadd", "add"),
    "sub": _instruction("fsub", "sub"),
    "mul": _instruction("fmul", "mul"),
    "div": _division("div"),
    "rem": _division("rem"),
    "min": _extreme("olt", "smin", "umin"),
    "max": _extreme("ogt", "smax", "umax"),
    "neg": _negate,
    "abs": _absolute,
    "fma": _intrinsic("fma"),
    "and": _instruction("and", "and"),
    "or": _instruction("or", "or"),
    "xor": _instruction("xor", "xor"),
    "not": _not,
    "shl": _shift("shl"),
    "shr_logical": _shift("lshr"),
    "shr_arithmetic": _shift("ashr"),
    "popcount": _intrinsic("ctpop"),
    "clz": _intrinsic("ctlz", ", i1 false"),
    "eq": _compare("oeq", "eq", "eq"),
    "ne": _compare("une", "ne", "ne"),
    "lt": _compare("olt", "slt", "ult"),
    "le": _compare("ole", "sle", "ule"),
    "gt": _compare("ogt", "sgt", "ugt"),
    "ge": _compare("oge", "sge", "uge"),
    "select": _select_rule,
    "convert": _convert,
    "bitcast": _bitcast,
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "round_even": _intrinsic("roundeven"),
    "sqrt": _intrinsic("sqrt"),
    "copysign": _intrinsic("copysign"),
    "is_finite": _is_finite,
    "external": _external,
}
