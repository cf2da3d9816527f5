"""The argument types of the NumPy front-end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from tetrax.tracing.value import Value

Array: TypeAlias = Value
"""What every function returns: a concrete array or the tracer that stands for one."""

PythonScalar: TypeAlias = bool | int | float | complex
ArrayLike: TypeAlias = Value | np.ndarray | np.generic | bool | int | float | complex
DTypeLike: TypeAlias = Any
Shape: TypeAlias = tuple[int, ...]
ShapeLike: TypeAlias = int | Sequence[int]
Axis: TypeAlias = int | Sequence[int] | None
Indices: TypeAlias = Any
Device: TypeAlias = Any
PrecisionLike: TypeAlias = Any

PYTHON_SCALARS = (bool, int, float, complex)
