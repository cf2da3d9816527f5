"""Tetrax: composable transformations of numerical Python functions."""

from __future__ import annotations

from tetrax.compiler.eager import evaluate as _evaluate
from tetrax.higher_order.jit import jit
from tetrax.tracing.trace import set_evaluator as _set_evaluator
from tetrax.transforms.derivatives import (
    grad,
    jvp,
    linear_transpose,
    linearize,
    value_and_grad,
    vjp,
)
from tetrax.transforms.jacobians import hessian, jacfwd, jacobian, jacrev

_set_evaluator(_evaluate)

__version__ = "0.1.0"
