"""Which Tetrax modules stand behind which jax module, and names that live elsewhere."""

from __future__ import annotations

from typing import Any

MODULES: dict[str, tuple[str, ...]] = {
    "jax": ("tetrax",),
    "jax.numpy": ("tetrax.numpy",),
    "jax.numpy.linalg": ("tetrax.numpy.linalg",),
    "jax.numpy.fft": ("tetrax.numpy.fft",),
    "jax.lax": ("tetrax.lax",),
    "jax.lax.linalg": ("tetrax.ops.linalg",),
    "jax.random": ("tetrax.random",),
    "jax.nn": ("tetrax.nn",),
    "jax.nn.initializers": ("tetrax.nn.initializers",),
    "jax.tree": ("tetrax.tree",),
    "jax.tree_util": ("tetrax.tree_util",),
    "jax.flatten_util": ("tetrax.flatten_util",),
    "jax.scipy": ("tetrax.scipy",),
    "jax.scipy.special": ("tetrax.scipy.special",),
    "jax.scipy.linalg": ("tetrax.scipy.linalg",),
    "jax.scipy.stats": ("tetrax.scipy.stats",),
    "jax.debug": ("tetrax.debug",),
    "jax.errors": ("tetrax.errors",),
    "jax.dtypes": ("tetrax.dtypes",),
    "jax.config": (),
    "jax.sharding": (),
    "jax.typing": (),
    "jax.core": (),
    "jax.extend": (),
    "jax.extend.core": (),
    "jax.interpreters": (),
    "jax.interpreters.ad": (),
    "jax.interpreters.batching": (),
    "jax.interpreters.partial_eval": (),
    "jax.custom_derivatives": (),
    "jax.custom_batching": ("tetrax.higher_order.custom_batching",),
    "jax.ad_checkpoint": (),
    "jax.stages": (),
    "jax.api_util": (),
    "jax.experimental": ("tetrax.experimental",),
    "jax.experimental.checkify": ("tetrax.experimental.checkify",),
    "jax.ops": ("tetrax.ops_front",),
    "jax.profiler": (),
    "jax.dlpack": (),
}

_CORE: dict[str, Any] = {
    "ShapedArray": "tetrax.ir.types:ShapedArray",
    "AbstractValue": "tetrax.ir.types:AbstractValue",
    "Tracer": "tetrax.tracing.trace:Tracer",
    "Jaxpr": "tetrax.ir.program:Program",
    "ClosedJaxpr": "tetrax.ir.program:ClosedProgram",
    "JaxprEqn": "tetrax.ir.program:Equation",
    "Var": "tetrax.ir.program:Var",
    "Literal": "tetrax.ir.program:Literal",
    "Primitive": "tetrax.tracing.primitive:Primitive",
    "get_aval": "tetrax.tracing.value:get_aval",
    "eval_jaxpr": "tetrax.tracing.staging:evaluate_program",
    "jaxpr_as_fun": "tetrax.higher_order.inspect:jaxpr_as_fun",
    "typeof": "tetrax.tracing.value:get_aval",
}

EXTRAS: dict[str, dict[str, Any]] = {
    "jax": {
        "Array": "tetrax.tracing.value:Value",
        "config": "tetrax.config:config",
        "Device": "tetrax.runtime.devices:Device",
        "typeof": "tetrax.tracing.value:get_aval",
    },
    "jax.core": _CORE,
    "jax.extend.core": _CORE,
    "jax.custom_derivatives": {
        "custom_jvp": "tetrax.higher_order.custom_derivatives:custom_jvp",
        "custom_vjp": "tetrax.higher_order.custom_derivatives:custom_vjp",
        "custom_gradient": "tetrax.higher_order.custom_derivatives:custom_gradient",
        "closure_convert": "tetrax.higher_order.inspect:closure_convert",
        "SymbolicZero": "tetrax.higher_order.custom_primitives:SymbolicZero",
    },
    "jax.ad_checkpoint": {
        "checkpoint": "tetrax.higher_order.checkpoint:checkpoint",
        "checkpoint_name": "tetrax.higher_order.checkpoint:checkpoint_name",
        "checkpoint_policies": "tetrax.higher_order.checkpoint:checkpoint_policies",
    },
    "jax.interpreters.ad": {
        "Zero": "tetrax.tracing.symbolic:Zero",
        "UndefinedPrimal": "tetrax.tracing.symbolic:UndefinedPrimal",
        "is_undefined_primal": "tetrax.tracing.symbolic:is_undefined",
        "instantiate_zeros": "tetrax.ops.structure:instantiate",
    },
    "jax.typing": {
        "ArrayLike": "tetrax.numpy:ArrayLike",
        "DTypeLike": "tetrax.numpy:DTypeLike",
    },
    "jax.sharding": {
        "Sharding": "tetrax.runtime.devices:Sharding",
        "SingleDeviceSharding": "tetrax.runtime.devices:SingleDeviceSharding",
    },
    "jax.stages": {
        "Traced": "tetrax.higher_order.stages:Traced",
        "Lowered": "tetrax.higher_order.stages:Lowered",
        "Compiled": "tetrax.higher_order.stages:Compiled",
        "Wrapped": "tetrax.higher_order.jit:Jitted",
    },
}
