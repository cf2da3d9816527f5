"""Moving data: layouts, indexing, scattering."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.row import Case, Function, Row
from benchmarks.rows.common import integers, normal, normals, size_in_bytes


def _long(*which: int) -> Function:
    """PyTorch users keep indices in 64 bits."""
    return lambda torch, *tensors: tuple(
        x.long() if i in which else x for i, x in enumerate(tensors)
    )


def transpose(n: int) -> Case:
    """A square matrix transposed in memory."""
    x = normal(n, n)
    return Case(
        program=lambda lib: lambda x: x.T,
        inputs=(x,),
        numpy=lambda x: np.ascontiguousarray(x.T),
        torch=lambda torch: lambda x: x.T.contiguous(),
        bytes=2 * size_in_bytes(x),
        tolerance=0,
    )


def concatenate(rows: int, columns: int) -> Case:
    """Four matrices side by side."""
    arrays = normals(*[(rows, columns)] * 4)
    return Case(
        program=lambda lib: lambda *arrays: lib.numpy.concatenate(arrays, axis=1),
        inputs=arrays,
        numpy=lambda *arrays: np.concatenate(arrays, axis=1),
        torch=lambda torch: lambda *tensors: torch.cat(tensors, dim=1),
        bytes=2 * size_in_bytes(*arrays),
        tolerance=0,
    )


def gather(n: int, source: int) -> Case:
    """Elements of a vector at random places."""
    x, i = normal(source), integers(n, below=source)
    return Case(
        program=lambda lib: lambda x, i: x[i],
        inputs=(x, i),
        numpy=lambda x, i: x[i],
        torch=lambda torch: lambda x, i: x[i],
        torch_inputs=_long(1),
        bytes=size_in_bytes(x, i) + 4 * n,
        tolerance=0,
    )


def embedding(vocabulary: int, width: int, tokens: int) -> Case:
    """Rows of a table looked up."""
    table, i = normal(vocabulary, width), integers(16, tokens // 16, below=vocabulary)
    return Case(
        program=lambda lib: lambda table, i: table[i],
        inputs=(table, i),
        numpy=lambda table, i: table[i],
        torch=lambda torch: lambda table, i: torch.nn.functional.embedding(i, table),
        torch_inputs=_long(1),
        bytes=8.0 * tokens * width,
        tolerance=0,
    )


def embedding_gradient(vocabulary: int, width: int, tokens: int) -> Case:
    """The gradient of the table: rows added at random places."""
    table, cotangent = normals((vocabulary, width), (16, tokens // 16, width))
    i = integers(16, tokens // 16, below=vocabulary)

    def in_numpy(table: Any, i: Any, cotangent: Any) -> Any:
        gradient = np.zeros_like(table)
        np.add.at(gradient, i, cotangent)
        return gradient

    def torch_program(torch: Any) -> Function:
        def gradient(table: Any, i: Any, cotangent: Any) -> Any:
            table = table.detach().requires_grad_()
            rows = torch.nn.functional.embedding(i, table)
            return torch.autograd.grad(rows, table, cotangent)

        return gradient

    return Case(
        program=lambda lib: lambda table, i, ct: lib.vjp(lambda t: t[i], table)[1](ct)[0],
        inputs=(table, i, cotangent),
        numpy=in_numpy,
        torch=torch_program,
        torch_inputs=_long(1),
        bytes=size_in_bytes(table) + 8.0 * tokens * width,
    )


def scatter_add(n: int, into: int) -> Case:
    """Numbers added at random places of a vector of zeros."""
    v, i = normal(n), integers(n, below=into)

    def in_numpy(v: Any, i: Any) -> Any:
        total = np.zeros(into, np.float32)
        np.add.at(total, i, v)
        return total

    return Case(
        program=lambda lib: lambda v, i: lib.numpy.zeros(into, v.dtype).at[i].add(v),
        inputs=(v, i),
        numpy=in_numpy,
        torch=lambda torch: lambda v, i: torch.zeros(into).scatter_add_(0, i, v),
        torch_inputs=_long(1),
        bytes=size_in_bytes(v, i) + 4 * into,
        tolerance=1e-3,
    )


def segment_sum(rows: int, columns: int, segments: int) -> Case:
    """Rows of a matrix summed by group."""
    data, ids = normal(rows, columns), integers(rows, below=segments)

    def program(lib: Any) -> Function:
        module = getattr(lib, "segment", None) or lib.ops  # JAX keeps it in jax.ops
        return lambda data, ids: module.segment_sum(data, ids, num_segments=segments)

    def in_numpy(data: Any, ids: Any) -> Any:
        total = np.zeros((segments, columns), np.float32)
        np.add.at(total, ids, data)
        return total

    return Case(
        program=program,
        inputs=(data, ids),
        numpy=in_numpy,
        torch=lambda torch: (
            lambda data, ids: torch.zeros(segments, columns).index_add_(0, ids, data)
        ),
        torch_inputs=_long(1),
        bytes=size_in_bytes(data, ids),
        tolerance=1e-3,
    )


def one_hot(n: int, classes: int) -> Case:
    """Labels as rows of zeros and a one."""
    labels = integers(n, below=classes)
    return Case(
        program=lambda lib: lambda labels: lib.nn.one_hot(labels, classes),
        inputs=(labels,),
        numpy=lambda labels: np.eye(classes, dtype=np.float32)[labels],
        torch=lambda torch: lambda labels: torch.nn.functional.one_hot(labels, classes).float(),
        torch_inputs=_long(0),
        bytes=4.0 * n * classes,
        tolerance=0,
    )


def roll(n: int) -> Case:
    """A matrix rolled along both axes."""
    x = normal(n, n)
    return Case(
        program=lambda lib: lambda x: lib.numpy.roll(x, (17, 33), (0, 1)),
        inputs=(x,),
        numpy=lambda x: np.roll(x, (17, 33), (0, 1)),
        torch=lambda torch: lambda x: torch.roll(x, (17, 33), (0, 1)),
        bytes=2 * size_in_bytes(x),
        tolerance=0,
    )


def pad(n: int) -> Case:
    """A matrix with a border of zeros."""
    x = normal(n, n)
    return Case(
        program=lambda lib: lambda x: lib.numpy.pad(x, ((3, 3), (5, 5))),
        inputs=(x,),
        numpy=lambda x: np.pad(x, ((3, 3), (5, 5))),
        torch=lambda torch: lambda x: torch.nn.functional.pad(x, (5, 5, 3, 3)),
        bytes=2 * size_in_bytes(x),
        tolerance=0,
    )


_FAMILY = "movement"
_TABLE = {"vocabulary": 32_000, "width": 512, "tokens": 8192}
_SMALL_TABLE = {"vocabulary": 37, "width": 8, "tokens": 64}

ROWS = (
    Row("transpose_4096", _FAMILY, transpose, {"n": 4096}, {"n": 37}),
    Row(
        "concatenate",
        _FAMILY,
        concatenate,
        {"rows": 2048, "columns": 1024},
        {"rows": 7, "columns": 5},
    ),
    Row(
        "gather_10m_of_1m",
        _FAMILY,
        gather,
        {"n": 10_000_000, "source": 1_000_000},
        {"n": 99, "source": 50},
    ),
    Row("embedding", _FAMILY, embedding, _TABLE, _SMALL_TABLE),
    Row("embedding_gradient", _FAMILY, embedding_gradient, _TABLE, _SMALL_TABLE),
    Row(
        "scatter_add_10m_into_1000",
        _FAMILY,
        scatter_add,
        {"n": 10_000_000, "into": 1000},
        {"n": 99, "into": 7},
    ),
    Row(
        "scatter_add_10m_into_1m",
        _FAMILY,
        scatter_add,
        {"n": 10_000_000, "into": 1_000_000},
        {"n": 99, "into": 200},
    ),
    Row(
        "segment_sum",
        _FAMILY,
        segment_sum,
        {"rows": 200_000, "columns": 64, "segments": 1000},
        {"rows": 50, "columns": 4, "segments": 6},
    ),
    Row("one_hot", _FAMILY, one_hot, {"n": 20_000, "classes": 1000}, {"n": 9, "classes": 5}),
    Row("roll_4096", _FAMILY, roll, {"n": 4096}, {"n": 40}),
    Row("pad_4096", _FAMILY, pad, {"n": 4096}, {"n": 40}),
)
