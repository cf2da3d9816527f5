"""A plain interpreter of kernel expressions and statements: the oracle that compiled kernels are
compared with.
"""

from __future__ import annotations

import math

import numpy as np
from tetrax.ir import kernel as k
from tetrax.ir.kernel_expr import fold_parts, iterate_parts


def _wrap(value, type):
    return (int(value) - type.minimum) % (1 << type.bits) + type.minimum


def _float(value, type):
    return type.dtype.type(value)


def _divide(a, b, type):
    if b == 0:
        return _wrap(-1, type)
    return _wrap(int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b)), type)


def _remainder(a, b):
    return a if b == 0 else (-1 if a < 0 else 1) * (abs(a) % abs(b))


def _minimum(a, b):
    if a != a or b != b:
        return a if a != a else b
    return a if a < b else b


def _maximum(a, b):
    if a != a or b != b:
        return a if a != a else b
    return a if a > b else b


def _integer_binary(op, a, b, type):
    unsigned = a % (1 << type.bits)
    count = b if 0 <= b < type.bits else None
    signed = unsigned - (1 << type.bits) if unsigned >> (type.bits - 1) else unsigned
    table = {
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "div": lambda: _divide(a, b, type),
        "rem": lambda: _remainder(a, b),
        "min": lambda: min(a, b),
        "max": lambda: max(a, b),
        "and": lambda: a & b,
        "or": lambda: a | b,
        "xor": lambda: a ^ b,
        "shl": lambda: 0 if count is None else a << count,
        "shr_logical": lambda: 0 if count is None else unsigned >> count,
        "shr_arithmetic": lambda: signed >> (type.bits - 1 if count is None else count),
    }
    return _wrap(table[op](), type)


_FLOAT_BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "rem": np.fmod,
    "min": _minimum,
    "max": _maximum,
    "copysign": np.copysign,
    "nextafter": np.nextafter,
}
_COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_FLOAT_UNARY = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round_even": np.rint,
    "sqrt": np.sqrt,
    "neg": np.negative,
    "abs": np.abs,
}


def _convert(value, source, to):
    if to.is_bool:
        return bool(value != 0)
    if to.is_float:
        if isinstance(value, int) and not isinstance(value, bool) and to.bits == 32:
            return np.array(value, source.dtype).astype(np.float32)[()]
        return _float(value, to)
    if source.is_float:
        if value != value:
            return 0
        if math.isinf(value):
            return to.maximum if value > 0 else to.minimum
        return min(max(int(value), to.minimum), to.maximum)
    return _wrap(value, to)


def _bitcast(value, source, to):
    dtype = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[to.bits]
    bits = int(_float(value, source).view(dtype)) if source.is_float else value % (1 << source.bits)
    if to.is_float:
        return np.array(bits, dtype).view(to.dtype)[()]
    return _wrap(bits, to)


class Interpreter:
    """Evaluates expressions and runs statements on NumPy arrays given per buffer."""

    def __init__(self, memory):
        self.memory = memory

    def value(self, node, scope, cache=None):
        cache = {} if cache is None else cache
        if node not in cache:
            cache[node] = self._value(node, scope, cache)
        return cache[node]

    def _value(self, node, scope, cache):
        op, type = node.op, node.type
        if op == "const":
            value = k.const_value(node)
            if not type.is_float:
                return value
            dtype = np.uint32 if type.bits == 32 else np.uint64
            return np.array(node.data, dtype).view(type.dtype)[()]
        if op == "var":
            return scope[node]
        if op == "result":
            return self.value(node.args[0], scope, cache)[node.data]
        if op == "fold":
            return self._fold(node, scope)
        if op == "iterate":
            return self._iterate(node, scope)
        args = [self.value(arg, scope, cache) for arg in node.args]
        if op == "load":
            return self._read(node.data, args[0])
        if op in ("select", "unlikely"):
            return args[1] if args[0] else args[2]
        source = node.args[0].type
        with np.errstate(all="ignore"):
            return self._plain(op, source, type, args)

    def _plain(self, op, source, type, args):
        if op in _COMPARE:
            return bool(_COMPARE[op](*args))
        if op == "convert":
            return _convert(args[0], source, type)
        if op == "bitcast":
            return _bitcast(args[0], source, type)
        if op == "is_finite":
            return bool(np.isfinite(args[0]))
        if op == "not":
            return not args[0]
        if type.is_float and op in _FLOAT_BINARY:
            return _float(_FLOAT_BINARY[op](*args), type)
        if type.is_float and op in _FLOAT_UNARY:
            return _float(_FLOAT_UNARY[op](args[0]), type)
        if op == "abs":
            return _wrap(abs(args[0]), type)
        if op == "popcount":
            return bin(args[0] % (1 << type.bits)).count("1")
        if op == "clz":
            return type.bits - (args[0] % (1 << type.bits)).bit_length()
        if type.is_bool:
            return bool({"and": min, "or": max, "xor": lambda a, b: a != b}[op](*args))
        return _integer_binary(op, *args, type)

    def _read(self, buffer, offset):
        value = self.memory[buffer][offset]
        if buffer.element.is_bool:
            return bool(value)
        return int(value) if buffer.element.is_integer else value

    def _fold(self, node, scope):
        shape = node.data
        extents, initial, updates = fold_parts(node)
        sizes = [self.value(extent, scope) for extent in extents]
        values = [self.value(start, scope) for start in initial]
        for point in np.ndindex(*sizes):
            inner = dict(scope)
            inner.update(zip(shape.variables, point, strict=True))
            inner.update(zip(shape.accumulators, values, strict=True))
            cache = {}
            values = [self.value(update, inner, cache) for update in updates]
        return values

    def _iterate(self, node, scope):
        initial, following, condition = iterate_parts(node)
        values = [self.value(start, scope) for start in initial]
        while True:
            inner = {**scope, **dict(zip(node.data, values, strict=True))}
            if not self.value(condition, inner):
                return values
            cache = {}
            values = [self.value(value, inner, cache) for value in following]

    def run(self, statement, scope):
        """Run a statement; returns the scope after it."""
        if isinstance(statement, k.Block):
            for inner in statement.statements:
                scope = self.run(inner, scope)
        elif isinstance(statement, k.Store):
            offset = self.value(statement.offset, scope)
            self.memory[statement.buffer][offset] = self.value(statement.value, scope)
        elif isinstance(statement, k.If):
            chosen = statement.then if self.value(statement.condition, scope) else statement.orelse
            self.run(chosen, scope)
        elif isinstance(statement, k.Loop):
            scope = self._loop(statement, scope)
        elif isinstance(statement, k.While):
            scope = self._while(statement, scope)
        return scope

    def _loop(self, loop, scope):
        carried = {c.variable: self.value(c.initial, scope) for c in loop.carried}
        for i in range(self.value(loop.extent, scope)):
            inner = self.run(loop.body, {**scope, **carried, loop.variable: i})
            carried = {c.variable: self.value(c.following, inner) for c in loop.carried}
        return {**scope, **carried}

    def _while(self, loop, scope):
        carried = {c.variable: self.value(c.initial, scope) for c in loop.carried}
        while self.value(loop.condition, {**scope, **carried}):
            inner = self.run(loop.body, {**scope, **carried})
            carried = {c.variable: self.value(c.following, inner) for c in loop.carried}
        return {**scope, **carried}
