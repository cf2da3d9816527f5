"""How exactly products may be computed: arguments that only accelerators act on.

On CPUs every product is computed at the precision of its operands (narrow floats in float32).
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import numpy as np
from tetrax import dtypes
from tetrax.config import config


class Precision(enum.Enum):
    """Trade-off between speed and accuracy of float32 products on accelerators."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        return _NAMES.get(value)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    def __str__(self) -> str:
        return self.name


_NAMES: dict[str | None, Precision] = {
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
    "high": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "default": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    None: Precision.DEFAULT,
}


class DotAlgorithm(NamedTuple):
    """An explicit algorithm for products on accelerators: types, and how operands are split."""

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Named algorithms for products; names read LHS_RHS_ACCUMULATOR."""

    DEFAULT = enum.auto()
    ANY_F8_ANY_F8_F32 = enum.auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = enum.auto()
    ANY_F8_ANY_F8_ANY = enum.auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()

    def __repr__(self) -> str:
        return f"DotAlgorithmPreset.{self.name}"

    def __str__(self) -> str:
        return self.name

    @property
    def supported_lhs_types(self) -> tuple[Any, ...] | None:
        """Operand types that the algorithm takes as they are; None means any."""
        return _OPERAND_TYPES.get(self.name.split("_")[0])

    @property
    def supported_rhs_types(self) -> tuple[Any, ...] | None:
        return self.supported_lhs_types

    @property
    def accumulation_type(self) -> Any:
        """The type of sums; None where the result's type decides."""
        return _ACCUMULATORS.get(self.name, np.float32)


_OPERAND_TYPES: dict[str, tuple[Any, ...]] = {
    "F16": (np.float16,),
    "BF16": (dtypes.bfloat16, np.float32),
    "TF32": (np.float32,),
    "F32": (np.float32,),
    "F64": (np.float64,),
}
_ACCUMULATORS: dict[str, Any] = {
    "DEFAULT": None,
    "ANY_F8_ANY_F8_ANY": None,
    "ANY_F8_ANY_F8_ANY_FAST_ACCUM": None,
    "F16_F16_F16": np.float16,
    "BF16_BF16_BF16": dtypes.bfloat16,
    "F64_F64_F64": np.float64,
}


def canonical_precision(precision: Any) -> Any:
    """None, a pair of `Precision`s, or an algorithm, from what users pass.

    Raises ValueError for anything else.
    """
    if precision is None:
        default = config.default_matmul_precision
        return None if default is None else canonical_precision(default)
    if isinstance(precision, Precision):
        return precision, precision
    if isinstance(precision, DotAlgorithm | DotAlgorithmPreset):
        return precision
    if isinstance(precision, str):
        if precision in _NAMES:
            return _NAMES[precision], _NAMES[precision]
        if precision in DotAlgorithmPreset.__members__:
            return DotAlgorithmPreset[precision]
    if isinstance(precision, list | tuple) and len(precision) == 2:
        pair = tuple(p if isinstance(p, Precision) else _NAMES.get(p) for p in precision)
        if None not in pair:
            return pair
    names = ", ".join(repr(name) for name in _NAMES if name)
    raise ValueError(
        f"Precision argument must be None, a lax.Precision, one of {names}, a pair of these, or a "
        f"lax.DotAlgorithm or the name of a lax.DotAlgorithmPreset; got {precision!r}"
    )


__all__ = ["DotAlgorithm", "DotAlgorithmPreset", "Precision", "canonical_precision"]
