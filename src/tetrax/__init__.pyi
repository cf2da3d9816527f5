"""The names of the package, for type checkers; `__init__.py` loads them when they are used."""

from __future__ import annotations

import numpy as np
from tetrax import (
    debug as debug,
)
from tetrax import (
    distributed as distributed,
)
from tetrax import (
    dtypes,
    errors,
    lax,
    numpy,
    tree,
    tree_util,
)
from tetrax import (
    experimental as experimental,
)
from tetrax import (
    flatten_util as flatten_util,
)
from tetrax import (
    image as image,
)
from tetrax import (
    nn as nn,
)
from tetrax import (
    random as random,
)
from tetrax import (
    scipy as scipy,
)
from tetrax import (
    segment as segment,
)
from tetrax import (
    sharding as sharding,
)
from tetrax.config import (
    Config,
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
from tetrax.higher_order.pmap import pmap
from tetrax.higher_order.shard_map import shard_map, smap
from tetrax.higher_order.sharding_constraint import reshard
from tetrax.higher_order.stages import ShapeDtypeStruct
from tetrax.padding import pad_to_devices, unpad
from tetrax.runtime.array import Array
from tetrax.runtime.array_from_parts import (
    device_put_replicated,
    device_put_sharded,
    make_array_from_callback,
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from tetrax.runtime.devices import (
    Device,
    default_backend,
    device_count,
    devices,
    host_count,
    host_id,
    host_ids,
    local_device_count,
    local_devices,
    process_count,
    process_index,
    process_indices,
)
from tetrax.runtime.mesh_context import make_mesh, set_mesh
from tetrax.runtime.partition_spec import P
from tetrax.runtime.placement import (
    block_until_ready,
    copy_to_host_async,
    device_get,
    device_put,
    live_arrays,
    typeof,
)
from tetrax.runtime.shard import Shard
from tetrax.runtime.shardings import NamedSharding
from tetrax.tracing.source import named_scope
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

config: Config
float0: np.dtype
__version__: str

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
