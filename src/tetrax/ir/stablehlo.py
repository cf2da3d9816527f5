"""StableHLO as text: types, constants, attributes, operations and regions.

Everything is written in MLIR's generic form, which has changed least over the versions. Typed keys
are written as the 64-bit integers that hold them. `Builder` knows the syntax only; what each
operation of the program becomes is said by its `stablehlo` rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax.ir.types import ShapedArray

_INTEGERS = {
    "bool": "i1",
    "int2": "i2",
    "int4": "i4",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint2": "ui2",
    "uint4": "ui4",
    "uint8": "ui8",
    "uint16": "ui16",
    "uint32": "ui32",
    "uint64": "ui64",
}
_FLOATS = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "float4_e2m1fn": "f4E2M1FN",
    "float8_e3m4": "f8E3M4",
    "float8_e4m3": "f8E4M3",
    "float8_e4m3b11fnuz": "f8E4M3B11FNUZ",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float8_e8m0fnu": "f8E8M0FNU",
}
_ELEMENTS = {**_INTEGERS, **_FLOATS}
_FLOAT0 = "i1"


@dataclass(frozen=True)
class Handle:
    """A value of the text: its name there and its type."""

    name: str
    aval: ShapedArray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    def typed(self, aval: ShapedArray) -> Handle:
        """The same value, spoken of as `aval` (whose text must be the same type)."""
        return Handle(self.name, aval)


def element_text(dtype: Any) -> str:
    """The element type of `dtype`.

    >>> element_text(np.dtype("complex64"))
    'complex<f32>'
    """
    if isinstance(dtype, dtypes.ExtendedDType):
        dtype = dtype.storage
    if dtype == dtypes.float0:
        return _FLOAT0
    return _ELEMENTS[dtype.name]


def type_text(aval: ShapedArray) -> str:
    """The tensor type of `aval`.

    >>> type_text(ShapedArray((2, 3), np.float32))
    'tensor<2x3xf32>'
    """
    return f"tensor<{''.join(f'{n}x' for n in aval.shape)}{element_text(aval.dtype)}>"


# -- attributes ----------------------------------------------------------------------------------


def i64(value: int) -> str:
    return f"{int(value)} : i64"


def i32(value: int) -> str:
    return f"{int(value)} : i32"


def boolean(value: bool) -> str:
    return "true" if value else "false"


def i64_array(values: Iterable[int]) -> str:
    listed = ", ".join(str(int(v)) for v in values)
    return f"array<i64: {listed}>" if listed else "array<i64>"


def bool_array(values: Iterable[bool]) -> str:
    listed = ", ".join(boolean(v) for v in values)
    return f"array<i1: {listed}>" if listed else "array<i1>"


def pairs(rows: Sequence[Sequence[int]]) -> str:
    """Paddings: one pair per axis."""
    if not rows:
        return "dense<> : tensor<0x2xi64>"
    listed = ", ".join(f"[{int(low)}, {int(high)}]" for low, high in rows)
    return f"dense<[{listed}]> : tensor<{len(rows)}x2xi64>"


def enum(kind: str, value: str) -> str:
    return f"#stablehlo<{kind} {value}>"


def record(kind: str, **fields: Any) -> str:
    """A structured attribute: sequences as lists, numbers as they are."""
    parts = []
    for key, value in fields.items():
        if isinstance(value, int):
            parts.append(f"{key} = {value}")
        elif value:
            parts.append(f"{key} = [{', '.join(str(int(v)) for v in value)}]")
    return f"#stablehlo.{kind}<{', '.join(parts)}>"


Body = Callable[[list[Handle]], Sequence[Handle]]


class Builder:
    """Writes one function, operation by operation."""

    i64 = staticmethod(i64)
    i32 = staticmethod(i32)
    i64_array = staticmethod(i64_array)

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0
        self._depth = 1

    # -- operations ----------------------------------------------------------------------------

    def op(
        self,
        name: str,
        operands: Sequence[Handle],
        outs: Sequence[ShapedArray],
        regions: Sequence[str] = (),
        dialect: str = "stablehlo",
        **attributes: str,
    ) -> Any:
        """Write an operation; one handle for one result, else a list of them."""
        results = [self._fresh(aval) for aval in outs]
        types = ", ".join(type_text(x.aval) for x in operands)
        out_types = ", ".join(map(type_text, outs))
        text = f'"{dialect}.{name}"({", ".join(x.name for x in operands)})'
        if regions:
            text += f" ({', '.join(regions)})"
        if attributes:
            listed = ", ".join(f"{key} = {value}" for key, value in attributes.items())
            text += f" {{{listed}}}"
        text += f" : ({types}) -> {out_types if len(outs) == 1 else f'({out_types})'}"
        if results:
            text = f"{', '.join(x.name for x in results)} = {text}"
        self._lines.append("  " * self._depth + text)
        return results[0] if len(results) == 1 else results

    def chlo(
        self,
        name: str,
        operands: Sequence[Handle],
        outs: Sequence[ShapedArray],
        **attributes: str,
    ) -> Any:
        """An operation of CHLO, the client dialect that XLA expands into StableHLO itself."""
        return self.op(name, operands, outs, dialect="chlo", **attributes)

    def region(self, avals: Sequence[ShapedArray], body: Body) -> str:
        """The text of a region with arguments of types `avals`, returning what `body` gives."""
        outer, self._lines = self._lines, []
        arguments = [self._fresh(aval) for aval in avals]
        self._depth += 1
        self.op("return", list(body(arguments)), [])
        self._depth -= 1
        lines, self._lines = self._lines, outer
        pad = "  " * self._depth
        head = ", ".join(f"{x.name}: {type_text(x.aval)}" for x in arguments)
        label = f"{pad}^bb0({head}):\n" if arguments else ""
        return "{\n" + label + "\n".join(lines) + f"\n{pad}}}"

    def function(self, name: str, avals: Sequence[ShapedArray], body: Body) -> str:
        """The text of a module with the function `main`."""
        arguments = [Handle(f"%arg{i}", aval) for i, aval in enumerate(avals)]
        results = list(body(arguments))
        self.op("return", results, [], dialect="func")
        head = ", ".join(f"{x.name}: {type_text(x.aval)}" for x in arguments)
        types = ", ".join(type_text(x.aval) for x in results)
        return (
            f"module @{name} {{\nfunc.func public @main({head}) -> ({types}) {{\n"
            + "\n".join(self._lines)
            + "\n}\n}\n"
        )

    def _fresh(self, aval: ShapedArray) -> Handle:
        handle = Handle(f"%{self._count}", aval)
        self._count += 1
        return handle

    # -- constants -----------------------------------------------------------------------------

    def splat(self, value: Any, aval: ShapedArray) -> Handle:
        """Every element `value`."""
        return self._constant(np.asarray(value, _storage(aval.dtype)).reshape(1), aval)

    def constant(self, array: Any, aval: ShapedArray) -> Handle:
        """The elements of a NumPy array."""
        return self._constant(np.asarray(array, _storage(aval.dtype)), aval)

    def _constant(self, array: np.ndarray, aval: ShapedArray) -> Handle:
        dtype = array.dtype
        if dtype == np.bool_ or dtypes.itemsize_bits(dtype) < 8:
            # Elements of less than a byte are packed differently from version to version.
            wide = aval.update(dtype=np.uint8 if dtype.name[0] in "bu" else np.int8)
            handle = self._constant(array.astype(wide.dtype), wide)
            if dtype != np.bool_:
                return self.op("convert", [handle], [aval])
            zero = self._constant(np.zeros(1, np.uint8), wide)
            direction = enum("comparison_direction", "NE")
            return self.op("compare", [handle, zero], [aval], comparison_direction=direction)
        raw = np.ascontiguousarray(array).tobytes().hex().upper()
        data = f'"0x{raw}"' if aval.size else ""
        return self.op("constant", [], [aval], value=f"dense<{data}> : {type_text(aval)}")


def _storage(dtype: Any) -> Any:
    if isinstance(dtype, dtypes.ExtendedDType):
        return dtype.storage
    return np.dtype(np.bool_) if dtype == dtypes.float0 else dtype
