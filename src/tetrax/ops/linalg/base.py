"""What all matrix decompositions share: shape checks, batches of matrices, matrix algebra.

The last two axes are the matrix, those before are batches. References are SciPy's LAPACK wrappers;
where LAPACK reports failure the result is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tetrax import errors
from tetrax._lazy import lazy_module
from tetrax.ir.layout import Factors, FactorsBuilder
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import abs, add, div, mul, sub
from tetrax.ops.base import batch_size, real_dtype
from tetrax.ops.contract import batch_matmul
from tetrax.ops.convert import conj, convert_element_type, real, stop_gradient
from tetrax.ops.join import slice_along
from tetrax.ops.precision import Precision
from tetrax.ops.reduce import reduce_max
from tetrax.ops.select import select
from tetrax.ops.structure import batch_at, broadcast_in_dim, full, move_axis, reduce_sum, transpose
from tetrax.runtime.array import as_value
from tetrax.tracing.primitive import Primitive, rule
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.value import get_aval

lapack = lazy_module("scipy.linalg.lapack")

_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
# Differences up to this many units in the last place count as zero.
_UNITS = 10
_ACCEPTED = "float32, float64, complex64 and complex128"


def right_sides_apart(factors: Factors, columns: bool) -> Factors:
    """The factors of a linear system whose last operand and result may be cut between columns (or
    rows) as well.
    """
    axis = -1 if columns else -2
    right = factors.operands[-1]
    ((free,), result) = right[axis], list(factors.results[0])
    result[axis] = (free,)
    return replace(factors, results=(tuple(result),), whole=factors.whole - {free})


class Decomposition(Primitive):
    """An operation on matrices; `ranks` says how many axes of each operand are not batches.

    Subclasses give `results` (types of the results for one matrix) and `one` (their values).
    """

    ranks: tuple[int, ...] = (2,)

    @rule
    @rule
    def results(self, *avals: ShapedArray, **params: Any) -> Any:
        raise NotImplementedError

    @rule
    @rule
    def one(self, *arrays: np.ndarray, **params: Any) -> Any:
        raise NotImplementedError

    def shape(self, *avals: ShapedArray, **params: Any) -> Any:
        batch = self._batch_shape(avals)
        inner = [a.update(shape=a.shape[len(batch) :]) for a in avals if self._accepted(a)]
        found = self.results(*inner, **params)
        if self.multiple_results:
            return [out.update(shape=batch + out.shape) for out in found]
        return found.update(shape=batch + found.shape)

    def _accepted(self, aval: ShapedArray) -> bool:
        if aval.dtype.name not in (*_LETTERS, "int32"):
            raise TypeError(
                f"{self.name} does not accept dtype {aval.dtype.name}. Accepted dtypes are "
                f"{_ACCEPTED}"
            )
        return True

    def _batch_shape(self, avals: Sequence[ShapedArray]) -> tuple[int, ...]:
        batches = []
        for i, (rank, aval) in enumerate(zip(self.ranks, avals, strict=True)):
            if aval.ndim < rank:
                raise errors.ShapeError(
                    f"Input {i} to {self.name} must have rank at least {rank}, but got "
                    f"shape={aval.shape}"
                )
            batches.append(aval.shape[: aval.ndim - rank])
        if any(batch != batches[0] for batch in batches):
            shown = ", ".join(str(a.shape) for a in avals)
            raise errors.ShapeError(
                f"All inputs to {self.name} must have the same batch dimensions, got shapes {shown}"
            )
        return batches[0]

    @rule
    def factors(
        self, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], params: dict
    ) -> Factors:
        build = FactorsBuilder()
        batch = build.axes(self._batch_shape(avals))

        def dims(aval: ShapedArray) -> list[int]:
            return [*batch, *(build.new(n, whole=True) for n in aval.shape[len(batch) :])]

        return build.build([dims(aval) for aval in avals], [dims(out) for out in outs])

    def reference(self, *arrays: np.ndarray, **params: Any) -> Any:
        first = arrays[0]
        batch = first.shape[: first.ndim - self.ranks[0]]
        if not batch:
            return self.one(*arrays, **params)
        avals = self.out_avals([get_aval(x) for x in arrays], params)
        outs = [np.empty(a.shape, a.dtype) for a in avals]
        for index in np.ndindex(*batch):
            values = self.one(*(x[index] for x in arrays), **params)
            for out, value in zip(outs, values if self.multiple_results else [values], strict=True):
                out[index] = value
        return outs if self.multiple_results else outs[0]

    @rule
    def batch(self, operands: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        size = batch_size(operands, dims)
        moved = [batch_at(x, dim, size) for x, dim in zip(operands, dims, strict=True)]
        out = self.bind(*moved, **params)
        return (out, [0] * len(out)) if self.multiple_results else (out, 0)

    def stablehlo(self, context: Any, operands: Any, outs: Any, **params: Any) -> Any:
        return context.linalg(self.name, operands, outs, params)


def need_square(name: str, aval: ShapedArray) -> None:
    """Raises ShapeError unless the matrix is square."""
    if aval.shape[-1] != aval.shape[-2]:
        raise errors.ShapeError(
            f"The input to {name} must be a square matrix. Got shape {aval.shape}."
        )


def routine(name: str, dtype: Any, library: Any = lapack) -> Callable[..., Any]:
    """SciPy's wrapper of a LAPACK (or BLAS) routine for `dtype`, named without its first letter."""
    return getattr(library, _LETTERS[dtype.name] + name)


def hermitian_name(dtype: Any, real: str, complex_: str) -> str:
    """The name of a routine that is called differently for complex matrices."""
    return complex_ if dtype.kind == "c" else real


def nan_like(*arrays: np.ndarray) -> list[np.ndarray]:
    """NaN in place of the results of a decomposition that failed."""
    return [np.full_like(x, np.nan) for x in arrays]


def wide(x: Any) -> tuple[Any, Any]:
    """`x` in a dtype that LAPACK knows, and the dtype it had: narrow floats become float32."""
    x = as_value(x)
    dtype = x.dtype
    if dtype.name in _LETTERS or dtype.name in ("int32", "uint32"):
        return x, dtype
    if dtype.itemsize > 2 or dtype.kind not in "fV":
        return x, dtype
    return convert_element_type(x, np.dtype(np.float32)), dtype


def narrowed(x: Any, dtype: Any) -> Any:
    """A result in the dtype that the operand had before `wide`."""
    if x.dtype == dtype or x.dtype.kind in "iuc" or dtype.kind == "c":
        return x
    return convert_element_type(x, dtype)


# -- matrix algebra ------------------------------------------------------------------------------


def conjugate(x: Any) -> Any:
    """The complex conjugate; real numbers are kept."""
    return conj(x) if x.dtype.kind == "c" else x


def real_part(x: Any) -> Any:
    """The real part; real numbers are kept."""
    return real(x) if x.dtype.kind == "c" else x


def swapped(x: Any) -> Any:
    """The transposed matrices."""
    rank = x.ndim
    return transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def adjoint(x: Any) -> Any:
    """The conjugate transposed matrices."""
    return conjugate(swapped(x))


def matmul(x: Any, y: Any) -> Any:
    """Products of matrices in full precision."""
    return batch_matmul(x, y, Precision.HIGHEST)


def product(*factors: Any) -> Any:
    """Products of several matrices, from the left."""
    total = factors[0]
    for factor in factors[1:]:
        total = matmul(total, factor)
    return total


def masked(x: Any, mask: np.ndarray) -> Any:
    """The elements of matrices where `mask` holds, 0 elsewhere."""
    keep = broadcast_in_dim(mask, x.shape, (x.ndim - 2, x.ndim - 1))
    return select(keep, x, full(x.shape, 0, x.dtype))


def tril(x: Any, k: int = 0) -> Any:
    """The lower triangle, up to diagonal `k`."""
    return masked(x, np.tri(x.shape[-2], x.shape[-1], k, dtype=np.bool_))


def triu(x: Any, k: int = 0) -> Any:
    """The upper triangle, from diagonal `k` on."""
    return masked(x, ~np.tri(x.shape[-2], x.shape[-1], k - 1, dtype=np.bool_))


def identity(like: Any) -> Any:
    """Identity matrices of the shape and dtype of `like`."""
    eye = np.eye(*like.shape[-2:], dtype=like.dtype)
    return broadcast_in_dim(eye, like.shape, (like.ndim - 2, like.ndim - 1))


def diagonal(x: Any) -> Any:
    """The main diagonals of square matrices."""
    return reduce_sum(masked(x, np.eye(x.shape[-1], dtype=np.bool_)), (x.ndim - 1,))


def rows(vector: Any, shape: Sequence[int]) -> Any:
    """A vector as every row of a matrix: element (i, j) is vector[j]."""
    rank = len(shape)
    return broadcast_in_dim(vector, shape, (*range(rank - 2), rank - 1))


def columns(vector: Any, shape: Sequence[int]) -> Any:
    """A vector as every column of a matrix: element (i, j) is vector[i]."""
    return broadcast_in_dim(vector, shape, tuple(range(len(shape) - 1)))


def symmetrize(x: Any, name: str = "symmetrize") -> Any:
    """(x + xᴴ) / 2; raises ShapeError on behalf of `name` unless matrices are square."""
    if x.ndim >= 2:
        need_square(name, x.aval)
    return mul(add(x, adjoint(x)), 0.5)


def skew(x: Any) -> Any:
    """x - xᴴ."""
    return sub(x, adjoint(x))


def safe_reciprocal(x: Any, zero: Any) -> Any:
    """1 / x, and 0 where `zero` says that x counts as 0."""
    one = full(x.shape, 1, x.dtype)
    return select(zero, full(x.shape, 0, x.dtype), div(one, select(zero, one, x)))


def rounding_limit(values: Any, shape: Sequence[int]) -> Any:
    """What counts as zero beside `values` (…, n): some units in the last place of the largest.

    A constant for derivatives, of `shape` (…, and any further axes).
    """
    largest = reduce_max(abs(values), (values.ndim - 1,))
    unit = np.asarray(_UNITS * np.finfo(values.dtype).eps, values.dtype)
    limit = stop_gradient(mul(largest, broadcast_in_dim(unit, largest.shape, ())))
    return broadcast_in_dim(limit, shape, tuple(range(largest.ndim)))


def leading(x: Any, axis: int, size: int) -> Any:
    """The first `size` slices along `axis`."""
    axis %= x.ndim
    return x if x.shape[axis] == size else slice_along(x, axis, 0, size)


def trailing(x: Any, axis: int, start: int) -> Any:
    """The slices along `axis` from `start` on."""
    axis %= x.ndim
    return slice_along(x, axis, start, x.shape[axis])


def tangent_or_none(tangents: Sequence[Any]) -> Any:
    """The tangent of the only operand, None for a symbolic zero."""
    return None if type(tangents[0]) is Zero else tangents[0]


def zeros_of(outs: Sequence[Any]) -> list[Zero]:
    return [Zero.from_primal_value(out) for out in outs]


__all__ = [
    "Decomposition",
    "adjoint",
    "columns",
    "conjugate",
    "diagonal",
    "hermitian_name",
    "identity",
    "leading",
    "masked",
    "matmul",
    "move_axis",
    "nan_like",
    "narrowed",
    "need_square",
    "product",
    "real_dtype",
    "real_part",
    "rounding_limit",
    "routine",
    "rows",
    "safe_reciprocal",
    "skew",
    "swapped",
    "symmetrize",
    "tangent_or_none",
    "trailing",
    "tril",
    "triu",
    "wide",
    "zeros_of",
]
