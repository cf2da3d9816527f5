"""Products of matrices that are stored in narrow floats with a scale for every block."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax import numpy as jnp


@dataclass(frozen=True)
class BlockScaleConfig:
    """How one operand is quantized: element and scale dtypes, and elements per scale."""

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any
    infer_only: bool


def get_scaled_dot_general_config(mode: str, global_scale: Any = None) -> BlockScaleConfig:
    """The quantization "nvfp4" or "mxfp8". Raises ValueError for another mode."""
    if mode == "nvfp4":
        one = jnp.ones((1,), np.float32)
        return BlockScaleConfig(
            mode,
            16,
            dtypes.float4_e2m1fn,
            dtypes.float8_e4m3fn,
            one if global_scale is None else global_scale,
            False,
        )
    if mode == "mxfp8":
        return BlockScaleConfig(mode, 32, dtypes.float8_e4m3fn, dtypes.float8_e8m0fnu, None, False)
    raise ValueError(f"Unsupported mode: {mode}")


def scaled_matmul(
    lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any, preferred_element_type: Any = np.float32
) -> Any:
    """lhs rhsᵀ per batch, where each scale multiplies a block along the contracted axis.

    lhs (B, M, K), rhs (B, N, K), scales (B, M, K / block) and (B, N, K / block). Raises ValueError
    for shapes that do not fit.
    """
    if any(x.ndim != 3 for x in (lhs, rhs, lhs_scales, rhs_scales)):
        raise ValueError("scaled_matmul requires all inputs to be 3-dimensional arrays")
    batches_differ = lhs.shape[0] != rhs.shape[0] or lhs.shape[2] != rhs.shape[2]
    if batches_differ:
        raise ValueError(
            "scaled_matmul requires inputs a and b to have matching batch (B) and contract (K) "
            f"dimensions, but got shapes {lhs.shape} and {rhs.shape}"
        )
    if lhs_scales.shape[::2] != rhs_scales.shape[::2]:
        raise ValueError(
            "scaled_matmul requires scales to have matching batch (B) and contract (K) dimensions, "
            f"but got shapes {lhs_scales.shape} and {rhs_scales.shape}"
        )
    if lhs_scales.shape[1] != lhs.shape[1] or rhs_scales.shape[1] != rhs.shape[1]:
        raise ValueError(
            "scaled_matmul requires scales to match non-contract dimensions of inputs, but got "
            f"shapes a: {lhs.shape}, b: {rhs.shape}, a_scales: {lhs_scales.shape}, b_scales: "
            f"{rhs_scales.shape}"
        )
    dtype = dtypes.check_and_canonicalize_user_dtype(preferred_element_type, "scaled_matmul")
    a, b = _dequantized(lhs, lhs_scales), _dequantized(rhs, rhs_scales)
    return jnp.einsum("bmk,bnk->bmn", a, b).astype(dtype)


def _dequantized(x: Any, scales: Any) -> Any:
    block = x.shape[-1] // scales.shape[-1]
    return x.astype(np.float32) * jnp.repeat(scales.astype(np.float32), block, axis=-1)


def scaled_dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    preferred_element_type: Any = np.float32,
    configs: Any = None,
    implementation: str | None = None,
) -> Any:
    """`lax.dot_general` of operands quantized in blocks; without configs, of the operands."""
    if implementation is not None:
        warnings.warn("Backend selector, now ignored.", DeprecationWarning, stacklevel=2)
    if configs is not None:
        raise NotImplementedError(
            "scaled_dot_general with configs needs block-scaled hardware: call it without configs, "
            "or quantize and use scaled_matmul"
        )
    return lax.dot_general(
        lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type
    )
