"""Reductions, alone and with what usually stands around them."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.row import Case, Function, Row
from benchmarks.rows.common import normal, normals, size_in_bytes


def total(n: int) -> Case:
    """The sum of a vector of positive numbers."""
    x = np.abs(normal(n))
    return Case(
        program=lambda lib: lib.numpy.sum,
        inputs=(x,),
        numpy=np.sum,
        torch=lambda torch: torch.sum,
        bytes=size_in_bytes(x),
    )


def exp_sum(n: int) -> Case:
    """The sum of exponentials."""
    x = normal(n)
    return Case(
        program=lambda lib: lambda x: lib.numpy.sum(lib.numpy.exp(x)),
        inputs=(x,),
        numpy=lambda x: np.exp(x).sum(),
        torch=lambda torch: lambda x: x.exp().sum(),
        bytes=size_in_bytes(x),
    )


def argmax(n: int) -> Case:
    """Where the largest element is."""
    x = normal(n)
    return Case(
        program=lambda lib: lib.numpy.argmax,
        inputs=(x,),
        numpy=lambda x: np.argmax(x).astype(np.int32),
        torch=lambda torch: torch.argmax,
        bytes=size_in_bytes(x),
        tolerance=0,
    )


def axis_sum(rows: int, columns: int, axis: int) -> Case:
    """Sums along one axis of a matrix."""
    x = np.abs(normal(rows, columns))
    return Case(
        program=lambda lib: lambda x: lib.numpy.sum(x, axis=axis),
        inputs=(x,),
        numpy=lambda x: x.sum(axis=axis),
        torch=lambda torch: lambda x: x.sum(dim=axis),
        bytes=size_in_bytes(x),
    )


def softmax(rows: int, columns: int) -> Case:
    """Softmax of every row."""
    x = normal(rows, columns)

    def in_numpy(x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return Case(
        program=lambda lib: lambda x: lib.nn.softmax(x, axis=-1),
        inputs=(x,),
        numpy=in_numpy,
        torch=lambda torch: lambda x: torch.softmax(x, dim=-1),
        bytes=2 * size_in_bytes(x),
    )


def logsumexp(rows: int, columns: int) -> Case:
    """log(sum(exp)) of every row."""
    x = normal(rows, columns)

    def in_numpy(x: Any) -> Any:
        top = x.max(-1, keepdims=True)
        return np.log(np.exp(x - top).sum(-1)) + top[:, 0]

    return Case(
        program=lambda lib: lambda x: lib.nn.logsumexp(x, axis=-1),
        inputs=(x,),
        numpy=in_numpy,
        torch=lambda torch: lambda x: torch.logsumexp(x, dim=-1),
        bytes=size_in_bytes(x),
    )


def layer_norm_gradient(rows: int, columns: int) -> Case:
    """Layer norm forward and backward: the result, and the gradients of input, scale and shift."""
    x, scale, shift, cotangent = normals((rows, columns), (columns,), (columns,), (rows, columns))

    def program(lib: Any) -> Function:
        jnp = lib.numpy

        def norm(x: Any, scale: Any, shift: Any) -> Any:
            mean = jnp.mean(x, axis=-1, keepdims=True)
            variance = jnp.mean((x - mean) ** 2, axis=-1, keepdims=True)
            return (x - mean) * lib.lax.rsqrt(variance + 1e-5) * scale + shift

        def both(x: Any, scale: Any, shift: Any, cotangent: Any) -> Any:
            result, pullback = lib.vjp(norm, x, scale, shift)
            return result, pullback(cotangent)

        return both

    def torch_program(torch: Any) -> Function:
        def both(x: Any, scale: Any, shift: Any, cotangent: Any) -> Any:
            leaves = [v.detach().requires_grad_() for v in (x, scale, shift)]
            y = torch.nn.functional.layer_norm(leaves[0], (columns,), leaves[1], leaves[2], 1e-5)
            return y, torch.autograd.grad(y, leaves, cotangent)

        return both

    return Case(
        program=program,
        inputs=(x, scale, shift, cotangent),
        torch=torch_program,
        bytes=4 * size_in_bytes(x),
    )


def variance(n: int) -> Case:
    """The variance of float64 numbers."""
    x = normal(n, dtype=np.float64) + 3.0
    return Case(
        program=lambda lib: lib.numpy.var,
        inputs=(x,),
        numpy=np.var,
        torch=lambda torch: lambda x: torch.var(x, correction=0),
        bytes=size_in_bytes(x),
        tolerance=1e-9,
        x64=True,
    )


def softmax_cross_entropy(rows: int, columns: int) -> Case:
    """The usual loss of classifiers and its gradient."""
    x = normal(rows, columns)
    labels = (np.arange(rows) * 7919 % columns).astype(np.int32)

    def program(lib: Any) -> Function:
        jnp = lib.numpy

        def loss(x: Any, labels: Any) -> Any:
            chosen = jnp.take_along_axis(lib.nn.log_softmax(x), labels[:, None], axis=1)
            return -jnp.mean(chosen)

        return lib.value_and_grad(loss)

    def torch_program(torch: Any) -> Function:
        def both(x: Any, labels: Any) -> Any:
            x = x.detach().requires_grad_()
            loss = torch.nn.functional.cross_entropy(x, labels)
            return loss, *torch.autograd.grad(loss, x)

        return both

    return Case(
        program=program,
        inputs=(x, labels),
        torch=torch_program,
        torch_inputs=lambda torch, x, labels: (x, labels.long()),
        bytes=2 * size_in_bytes(x),
    )


_VECTOR, _SHORT = {"n": 10_000_000}, {"n": 1001}
_MATRIX, _SMALL = {"rows": 10_000, "columns": 1000}, {"rows": 12, "columns": 30}
_FAMILY = "reductions"

ROWS = (
    Row("sum_10m", _FAMILY, total, _VECTOR, _SHORT),
    Row("exp_sum_10m", _FAMILY, exp_sum, _VECTOR, _SHORT),
    Row("argmax_10m", _FAMILY, argmax, _VECTOR, _SHORT),
    Row("column_sums", _FAMILY, axis_sum, {**_MATRIX, "axis": 0}, {**_SMALL, "axis": 0}),
    Row("row_sums", _FAMILY, axis_sum, {**_MATRIX, "axis": 1}, {**_SMALL, "axis": 1}),
    Row("softmax_10000x1000", _FAMILY, softmax, _MATRIX, _SMALL),
    Row("logsumexp_10000x1000", _FAMILY, logsumexp, _MATRIX, _SMALL),
    Row("layer_norm_gradient", _FAMILY, layer_norm_gradient, _MATRIX, _SMALL),
    Row("cross_entropy_gradient", _FAMILY, softmax_cross_entropy, _MATRIX, _SMALL),
    Row("variance_f64", _FAMILY, variance, _VECTOR, _SHORT),
)
