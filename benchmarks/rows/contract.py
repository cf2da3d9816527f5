"""Matrix products: square, skinny, batched, chained, transposed, in four types."""

from __future__ import annotations

from typing import Any

import ml_dtypes

import numpy as np
from benchmarks.row import Case, Row
from benchmarks.rows.common import Array, normals, size_in_bytes


def _product(a: Array, b: Array, flops: float, **more: Any) -> Case:
    return Case(
        program=lambda lib: lambda a, b: a @ b,
        inputs=(a, b),
        numpy=lambda a, b: a @ b,
        torch=lambda torch: lambda a, b: a @ b,
        flops=flops,
        **more,
    )


def matmul(m: int, k: int, n: int) -> Case:
    """An m×k by k×n product of float32."""
    a, b = normals((m, k), (k, n))
    moved = size_in_bytes(a, b) if m < 16 else 0.0
    return _product(a, b, 2.0 * m * k * n, bytes=moved)


def matmul_f64(n: int) -> Case:
    """A square product of float64."""
    a, b = (x.astype(np.float64) for x in normals((n, n), (n, n)))
    return _product(a, b, 2.0 * n**3, tolerance=1e-9, x64=True)


def matmul_bf16(n: int) -> Case:
    """A square product of bfloat16; NumPy has none."""
    a, b = (x.astype(ml_dtypes.bfloat16) for x in normals((n, n), (n, n)))
    case = _product(a, b, 2.0 * n**3, tolerance=2e-2)
    return Case(case.program, case.inputs, None, case.torch, flops=case.flops, tolerance=2e-2)


def batched(batch: int, m: int, k: int, n: int) -> Case:
    """Many products of one shape."""
    a, b = normals((batch, m, k), (batch, k, n))
    return _product(a, b, 2.0 * batch * m * k * n)


def transposed_left(n: int) -> Case:
    """AᵀB."""
    a, b = normals((n, n), (n, n))
    return Case(
        program=lambda lib: lambda a, b: a.T @ b,
        inputs=(a, b),
        numpy=lambda a, b: a.T @ b,
        torch=lambda torch: lambda a, b: a.T @ b,
        flops=2.0 * n**3,
    )


def transposed_right(n: int) -> Case:
    """ABᵀ."""
    a, b = normals((n, n), (n, n))
    return Case(
        program=lambda lib: lambda a, b: a @ b.T,
        inputs=(a, b),
        numpy=lambda a, b: a @ b.T,
        torch=lambda torch: lambda a, b: a @ b.T,
        flops=2.0 * n**3,
    )


def einsum_chain(n: int, inner: int) -> Case:
    """A chain whose best order is not from left to right."""
    shapes = ((n, inner), (inner, n), (n, inner), (inner, n))
    arrays = normals(*shapes)
    subscripts = "ab,bc,cd,de->ae"
    # ab,(bc,cd),de is the cheapest order when `inner` is the smaller side
    flops = 2.0 * (inner * n * inner + n * inner * inner + n * inner * n)
    return Case(
        program=lambda lib: lambda *arrays: lib.numpy.einsum(subscripts, *arrays),
        inputs=arrays,
        numpy=lambda *arrays: np.einsum(subscripts, *arrays, optimize=True),
        torch=lambda torch: lambda *arrays: torch.einsum(subscripts, *arrays),
        flops=flops,
        tolerance=1e-3,
    )


_SIZES = (64, 128, 256, 512, 1000, 1536, 2000)
_FAMILY = "contract"
_SMALL = {"m": 5, "k": 9, "n": 17}

ROWS = (
    *(
        Row(f"matmul_{n}_f32", _FAMILY, matmul, {"m": n, "k": n, "n": n}, _SMALL | {"m": n % 23})
        for n in _SIZES
    ),
    *(Row(f"matmul_{n}_f64", _FAMILY, matmul_f64, {"n": n}, {"n": n % 23}) for n in _SIZES),
    *(Row(f"matmul_{n}_bf16", _FAMILY, matmul_bf16, {"n": n}, {"n": 19}) for n in (512, 1000)),
    *(
        Row(f"skinny_{m}x1024", _FAMILY, matmul, {"m": m, "k": 1024, "n": 1024}, _SMALL | {"m": m})
        for m in (1, 2, 4, 8)
    ),
    Row("skinny_8x1000", _FAMILY, matmul, {"m": 8, "k": 1000, "n": 1000}, _SMALL | {"m": 8}),
    Row("matmul_128x784x512", _FAMILY, matmul, {"m": 128, "k": 784, "n": 512}, _SMALL | {"m": 6}),
    Row(
        "batched_32x128x64x128",
        _FAMILY,
        batched,
        {"batch": 32, "m": 128, "k": 64, "n": 128},
        {"batch": 3, **_SMALL},
    ),
    Row("transposed_left_512", _FAMILY, transposed_left, {"n": 512}, {"n": 13}),
    Row("transposed_right_512", _FAMILY, transposed_right, {"n": 512}, {"n": 13}),
    Row("einsum_chain", _FAMILY, einsum_chain, {"n": 1000, "inner": 64}, {"n": 11, "inner": 4}),
)
