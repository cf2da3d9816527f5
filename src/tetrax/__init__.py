"""Tetrax: composable transformations of numerical Python functions.

`grad`, `jit`, `vmap` take a function and give a function back, so they compose in any order.

Importing the package loads next to nothing: each name loads what it needs when it is first used.
`__init__.pyi` says the same to type checkers.
"""

# pyright: reportUnsupportedDunderAll=false

from __future__ import annotations

import importlib
from typing import Any

from tetrax import config as _config_module
from tetrax import dtypes, errors, tree, tree_util
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
from tetrax.tracebacks import filter_uncaught as _filter_uncaught
from tetrax.tracing.trace import set_evaluator as _set_evaluator
from tetrax.tracing.value import set_operators as _set_operators

config = _config_module.config
float0 = dtypes.float0

_filter_uncaught()


def _first_evaluation(primitive: Any, args: Any, params: Any) -> Any:
    evaluate = importlib.import_module("tetrax.compiler.eager").evaluate
    _set_evaluator(evaluate)
    return evaluate(primitive, args, params)


# The two seams: what evaluates an operation, and what operators mean (numpy/_array_methods.py).
_set_evaluator(_first_evaluation)
_set_operators(lambda: importlib.import_module("tetrax.numpy._array_methods").install())

__version__ = "0.1.0"

# Public names by the module that defines them.
_NAMES = {
    "Array": "tetrax.runtime.array",
    "Device": "tetrax.runtime.devices",
    "NamedSharding": "tetrax.runtime.shardings",
    "P": "tetrax.runtime.partition_spec",
    "ShapeDtypeStruct": "tetrax.higher_order.stages",
    "Shard": "tetrax.runtime.shard",
    "block_until_ready": "tetrax.runtime.placement",
    "checkpoint": "tetrax.higher_order.checkpoint",
    "checkpoint_policies": "tetrax.higher_order.checkpoint",
    "clear_caches": "tetrax.higher_order.contexts",
    "closure_convert": "tetrax.higher_order.inspect",
    "copy_to_host_async": "tetrax.runtime.placement",
    "custom_gradient": "tetrax.higher_order.custom_derivatives",
    "custom_jvp": "tetrax.higher_order.custom_derivatives",
    "custom_vjp": "tetrax.higher_order.custom_derivatives",
    "default_backend": "tetrax.runtime.devices",
    "device_count": "tetrax.runtime.devices",
    "device_get": "tetrax.runtime.placement",
    "device_put": "tetrax.runtime.placement",
    "device_put_replicated": "tetrax.runtime.array_from_parts",
    "device_put_sharded": "tetrax.runtime.array_from_parts",
    "devices": "tetrax.runtime.devices",
    "effects_barrier": "tetrax.higher_order.callbacks",
    "ensure_compile_time_eval": "tetrax.higher_order.contexts",
    "eval_shape": "tetrax.higher_order.inspect",
    "grad": "tetrax.transforms.derivatives",
    "hessian": "tetrax.transforms.jacobians",
    "host_count": "tetrax.runtime.devices",
    "host_id": "tetrax.runtime.devices",
    "host_ids": "tetrax.runtime.devices",
    "io_callback": "tetrax.higher_order.callbacks",
    "jacfwd": "tetrax.transforms.jacobians",
    "jacobian": "tetrax.transforms.jacobians",
    "jacrev": "tetrax.transforms.jacobians",
    "jit": "tetrax.higher_order.jit",
    "jvp": "tetrax.transforms.derivatives",
    "linear_transpose": "tetrax.transforms.derivatives",
    "linearize": "tetrax.transforms.derivatives",
    "live_arrays": "tetrax.runtime.placement",
    "local_device_count": "tetrax.runtime.devices",
    "local_devices": "tetrax.runtime.devices",
    "make_array_from_callback": "tetrax.runtime.array_from_parts",
    "make_array_from_process_local_data": "tetrax.runtime.array_from_parts",
    "make_array_from_single_device_arrays": "tetrax.runtime.array_from_parts",
    "make_jaxpr": "tetrax.higher_order.inspect",
    "make_mesh": "tetrax.runtime.mesh_context",
    "named_call": "tetrax.higher_order.contexts",
    "named_scope": "tetrax.tracing.source",
    "pad_to_devices": "tetrax.padding",
    "pmap": "tetrax.higher_order.pmap",
    "process_count": "tetrax.runtime.devices",
    "process_index": "tetrax.runtime.devices",
    "process_indices": "tetrax.runtime.devices",
    "pure_callback": "tetrax.higher_order.callbacks",
    "remat": "tetrax.higher_order.checkpoint",
    "reshard": "tetrax.higher_order.sharding_constraint",
    "set_mesh": "tetrax.runtime.mesh_context",
    "shard_map": "tetrax.higher_order.shard_map",
    "smap": "tetrax.higher_order.shard_map",
    "typeof": "tetrax.runtime.placement",
    "unpad": "tetrax.padding",
    "value_and_grad": "tetrax.transforms.derivatives",
    "vjp": "tetrax.transforms.derivatives",
    "vmap": "tetrax.transforms.mapping",
}

# Public modules, some under another name.
_MODULES = {
    "ad_checkpoint": "tetrax.higher_order.checkpoint",
    "custom_batching": "tetrax.higher_order.custom_batching",
    "custom_derivatives": "tetrax.higher_order.custom_derivatives",
    "debug": "tetrax.debug",
    "distributed": "tetrax.distributed",
    "experimental": "tetrax.experimental",
    "flatten_util": "tetrax.flatten_util",
    "image": "tetrax.image",
    "lax": "tetrax.lax",
    "nn": "tetrax.nn",
    "numpy": "tetrax.numpy",
    "random": "tetrax.random",
    "scipy": "tetrax.scipy",
    "segment": "tetrax.segment",
    "sharding": "tetrax.sharding",
    "stages": "tetrax.higher_order.stages",
}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(_MODULES[name])
    else:
        raise AttributeError(f"module 'tetrax' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_MODULES})


__all__ = [
    "Array",
    "Device",
    "NamedSharding",
    "P",
    "ShapeDtypeStruct",
    "Shard",
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
    "device_put_replicated",
    "device_put_sharded",
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
    "host_count",
    "host_id",
    "host_ids",
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
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
    "make_jaxpr",
    "make_mesh",
    "make_user_context",
    "named_call",
    "named_scope",
    "numpy",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "pad_to_devices",
    "pmap",
    "process_count",
    "process_index",
    "process_indices",
    "pure_callback",
    "remat",
    "reshard",
    "set_mesh",
    "shard_map",
    "sharding",
    "smap",
    "threefry_partitionable",
    "tree",
    "tree_util",
    "typeof",
    "unpad",
    "value_and_grad",
    "vjp",
    "vmap",
]
