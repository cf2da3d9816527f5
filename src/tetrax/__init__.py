"""Tetrax: composable transformations of numerical Python functions.

`grad`, `jit`, `vmap` take a function and give a function back, so they compose in any order.
"""

from __future__ import annotations

import importlib
from typing import Any

from tetrax import config as _config_module
from tetrax import dtypes, errors, tree, tree_util
from tetrax.compiler.eager import evaluate as _evaluate
from tetrax.config import (
    check_tracer_leaks,
    checking_leaks,
    debug_infs,
    debug_nans,
    default_device,
    default_matmul_precision,
    default_prng_impl,
    disable_jit,
    enable_x64,
    log_compiles,
    make_user_context,
    numpy_dtype_promotion,
    numpy_rank_promotion,
    threefry_partitionable,
)
from tetrax.higher_order.callbacks import effects_barrier, io_callback, pure_callback
from tetrax.higher_order.checkpoint import checkpoint, checkpoint_policies, remat
from tetrax.higher_order.contexts import clear_caches, ensure_compile_time_eval, named_call
from tetrax.higher_order.custom_derivatives import custom_gradient, custom_jvp, custom_vjp
from tetrax.higher_order.inspect import closure_convert, eval_shape, make_jaxpr
from tetrax.higher_order.jit import jit
from tetrax.higher_order.stages import ShapeDtypeStruct
from tetrax.runtime.array import Array
from tetrax.runtime.devices import (
    Device,
    default_backend,
    device_count,
    devices,
    local_device_count,
    local_devices,
    process_count,
    process_index,
)
from tetrax.runtime.placement import (
    block_until_ready,
    copy_to_host_async,
    device_get,
    device_put,
    live_arrays,
    typeof,
)
from tetrax.tracebacks import filter_uncaught as _filter_uncaught
from tetrax.tracing.source import named_scope
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
from tetrax.transforms.mapping import vmap

config = _config_module.config
float0 = dtypes.float0

_filter_uncaught()

# The two seams: what evaluates an operation, and what operators mean (numpy/_array_methods.py).
_set_evaluator(_evaluate)
lax = importlib.import_module("tetrax.lax")
numpy = importlib.import_module("tetrax.numpy")
importlib.import_module("tetrax.numpy._array_methods").install()

__version__ = "0.1.0"

# Front-ends that programs may do without are imported at first use.
_LAZY = {
    "ad_checkpoint": "tetrax.higher_order.checkpoint",
    "custom_batching": "tetrax.higher_order.custom_batching",
    "custom_derivatives": "tetrax.higher_order.custom_derivatives",
    "debug": "tetrax.debug",
    "experimental": "tetrax.experimental",
    "flatten_util": "tetrax.flatten_util",
    "image": "tetrax.image",
    "nn": "tetrax.nn",
    "random": "tetrax.random",
    "scipy": "tetrax.scipy",
    "segment": "tetrax.segment",
    "stages": "tetrax.higher_order.stages",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(_LAZY[name])
    raise AttributeError(f"module 'tetrax' has no attribute {name!r}")


__all__ = [
    "Array",
    "Device",
    "ShapeDtypeStruct",
    "block_until_ready",
    "check_tracer_leaks",
    "checking_leaks",
    "checkpoint",
    "checkpoint_policies",
    "clear_caches",
    "closure_convert",
    "config",
    "copy_to_host_async",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "debug_infs",
    "debug_nans",
    "default_backend",
    "default_device",
    "default_matmul_precision",
    "default_prng_impl",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "disable_jit",
    "dtypes",
    "effects_barrier",
    "enable_x64",
    "ensure_compile_time_eval",
    "errors",
    "eval_shape",
    "float0",
    "grad",
    "hessian",
    "io_callback",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "linear_transpose",
    "linearize",
    "live_arrays",
    "local_device_count",
    "local_devices",
    "log_compiles",
    "make_jaxpr",
    "make_user_context",
    "named_call",
    "named_scope",
    "numpy",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "process_count",
    "process_index",
    "pure_callback",
    "remat",
    "threefry_partitionable",
    "tree",
    "tree_util",
    "typeof",
    "value_and_grad",
    "vjp",
    "vmap",
]
