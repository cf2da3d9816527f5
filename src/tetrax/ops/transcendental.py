"""Exponentials, logarithms, circular and hyperbolic functions, powers and roots."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax.ir import kernel
from tetrax.ops.arithmetic import mul, neg
from tetrax.ops.base import COMPLEX, FLOATS, Elementwise

sin_p = Elementwise(
    "sin",
    1,
    accepts=FLOATS + COMPLEX,
    scalar=lambda x, accuracy=None: kernel.unary("sin", x),
    reference=lambda x, accuracy=None: np.sin(x),
    derivative=(lambda t, out, x, accuracy=None: mul(t, cos(x)),),
    stablehlo="sine",
)

cos_p = Elementwise(
    "cos",
    1,
    accepts=FLOATS + COMPLEX,
    scalar=lambda x, accuracy=None: kernel.unary("cos", x),
    reference=lambda x, accuracy=None: np.cos(x),
    derivative=(lambda t, out, x, accuracy=None: neg(mul(t, sin(x))),),
    stablehlo="cosine",
)


def sin(x: Any, accuracy: Any = None) -> Any:
    """Elementwise sine."""
    return sin_p(x, accuracy=accuracy)


def cos(x: Any, accuracy: Any = None) -> Any:
    """Elementwise cosine."""
    return cos_p(x, accuracy=accuracy)
