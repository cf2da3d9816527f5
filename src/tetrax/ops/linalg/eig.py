"""Eigenvalues and eigenvectors of general matrices, Schur and Hessenberg forms."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from tetrax._lazy import lazy_module
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import abs, add, div, mul, neg, sub
from tetrax.ops.base import TestFacts, register
from tetrax.ops.bits_and_compare import eq
from tetrax.ops.convert import complex as complex_of
from tetrax.ops.convert import complex_dtype, convert_element_type, imag, real
from tetrax.ops.creation import broadcasted_iota
from tetrax.ops.linalg.base import (
    Decomposition,
    adjoint,
    columns,
    conjugate,
    diagonal,
    masked,
    matmul,
    nan_like,
    need_square,
    routine,
    rows,
    safe_reciprocal,
    swapped,
    tangent_or_none,
    wide,
    zeros_of,
)
from tetrax.ops.linalg.emit import has_no_elements
from tetrax.ops.linalg.general_emit import emit_eig, emit_hessenberg, emit_schur
from tetrax.ops.linalg.lu import solve
from tetrax.ops.reduce import argmax
from tetrax.ops.select import select
from tetrax.ops.structure import broadcast_in_dim, full, reduce_sum
from tetrax.runtime.array import as_value

linalg = lazy_module("scipy.linalg")


class EigImplementation(enum.Enum):
    """How `eig` works; on CPUs only LAPACK is available."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class Eig(Decomposition):
    """Eigenvalues, and the left and right eigenvectors as asked."""

    multiple_results = True

    def results(self, x, *, compute_left_eigenvectors, compute_right_eigenvectors, **_):
        need_square("eig", x)
        dtype = complex_dtype(x.dtype) if x.dtype.kind != "c" else x.dtype
        count = compute_left_eigenvectors + compute_right_eigenvectors
        return [ShapedArray(x.shape[:1], dtype), *[ShapedArray(x.shape, dtype)] * count]

    def one(self, x, *, compute_left_eigenvectors, compute_right_eigenvectors, **_):
        wanted = (compute_left_eigenvectors, compute_right_eigenvectors)
        dtype = np.result_type(x.dtype, np.complex64)
        values = np.empty(x.shape[0], dtype)
        empty = [values, *[np.empty(x.shape, dtype)] * sum(wanted)]
        if x.size == 0:
            return empty
        if not np.isfinite(x).all():
            return nan_like(*empty)
        try:
            found = linalg.eig(x, left=wanted[0], right=wanted[1], check_finite=False)
        except linalg.LinAlgError:
            return nan_like(*empty)
        found = found if isinstance(found, tuple) else (found,)
        return [part.astype(dtype) for part in found]

    def emit(self, builder, operands, outs, **params):
        if not has_no_elements(operands):
            wanted = [params[f"compute_{side}_eigenvectors"] for side in ("left", "right")]
            emit_eig(builder, operands[0], outs, *wanted)

    def jvp(self, primals, tangents, *, enable_eigvec_derivs=False, **params):
        left, right = (
            params[name] for name in ("compute_left_eigenvectors", "compute_right_eigenvectors")
        )
        options = {"enable_eigvec_derivs": enable_eigvec_derivs, **params}
        tangent = tangent_or_none(tangents)
        if tangent is None:
            outs = self.bind(*primals, **options)
            return outs, zeros_of(outs)
        if (left or right) and not enable_eigvec_derivs:
            raise NotImplementedError(
                "Derivatives of non-symmetric eigenvectors are only valid under assumptions on the "
                "input that cannot be checked: eigenvalues are distinct, and what is made of the "
                "vectors does not depend on how they are scaled. Pass enable_eigvec_derivs=True to "
                "lax.linalg.eig to opt in"
            )
        outs = self.bind(*primals, **{**options, "compute_right_eigenvectors": True})
        values, vectors = outs[0], outs[-1]
        tangent = convert_element_type(tangent, vectors.dtype)
        if not (left or right):
            projected = mul(solve(vectors, tangent), swapped(vectors))
            return [values], [reduce_sum(projected, (projected.ndim - 1,))]
        d_values, d_right = _vector_tangents(values, vectors, tangent)
        d_outs = [d_values]
        if left:
            d_outs.append(_vector_tangents(conjugate(values), outs[1], adjoint(tangent))[1])
        if right:
            d_outs.append(d_right)
        return outs[: len(d_outs)], d_outs


def _vector_tangents(values: Any, vectors: Any, t: Any) -> tuple[Any, Any]:
    """Tangents of values and vectors; vectors keep length 1 and their largest element real."""
    inner = matmul(solve(vectors, t), vectors)
    difference = sub(rows(values, inner.shape), columns(values, inner.shape))
    same = broadcast_in_dim(
        np.eye(inner.shape[-1], dtype=np.bool_), inner.shape, (inner.ndim - 2, inner.ndim - 1)
    )
    turned = matmul(vectors, mul(safe_reciprocal(difference, same), inner))
    axis = vectors.ndim - 2
    largest = argmax(abs(vectors), axis, np.int32)
    places = broadcasted_iota(np.int32, vectors.shape, axis)
    chosen = eq(places, rows(largest, vectors.shape))
    at_largest = lambda x: reduce_sum(select(chosen, x, full(x.shape, 0, x.dtype)), (axis,))
    stretch = neg(real(reduce_sum(mul(conjugate(vectors), turned), (axis,))))
    phase = neg(div(imag(at_largest(turned)), real(at_largest(vectors))))
    correction = mul(vectors, rows(complex_of(stretch, phase), vectors.shape))
    return diagonal(inner), add(turned, correction)


class Schur(Decomposition):
    """The Schur form and, if asked, the unitary matrix that transforms to it."""

    multiple_results = True

    def results(self, x, *, compute_schur_vectors, sort_eig_vals, select_callable):
        need_square("schur", x)
        return [x, x] if compute_schur_vectors else [x]

    def one(self, x, *, compute_schur_vectors, sort_eig_vals, select_callable):
        count = 1 + compute_schur_vectors
        if x.size == 0:
            return [x] * count
        if not np.isfinite(x).all():
            return nan_like(*[x] * count)
        output = "complex" if x.dtype.kind == "c" else "real"
        try:
            found: Any = linalg.schur(x, output=output, check_finite=False)
        except linalg.LinAlgError:
            return nan_like(*[x] * count)
        return list(found[:count])

    def emit(self, builder, operands, outs, **params):
        if not has_no_elements(operands):
            emit_schur(builder, operands[0], outs)


class Hessenberg(Decomposition):
    """The Hessenberg form with the reflections below it, and their factors."""

    multiple_results = True

    def results(self, x):
        need_square("hessenberg", x)
        return [x, x.update(shape=(max(x.shape[0] - 1, 0),))]

    def one(self, x):
        if x.shape[0] < 2:
            return [x, np.zeros(max(x.shape[0] - 1, 0), x.dtype)]
        packed, factors, _ = routine("gehrd", x.dtype)(x, lo=0, hi=x.shape[0] - 1)
        return [packed, factors]

    def emit(self, builder, operands, outs):
        if not has_no_elements(operands):
            emit_hessenberg(builder, operands[0], *outs)


_SQUARE = ShapedArray((3, 3), np.float32)
_NO_DERIVATIVE = ("jvp", "JAX has none")


def _eig_samples() -> list[tuple[list[ShapedArray], dict]]:
    names = ("compute_left_eigenvectors", "compute_right_eigenvectors")
    rest = {"enable_eigvec_derivs": True, "implementation": None}
    return [
        ([_SQUARE], {**dict(zip(names, wanted, strict=True)), **rest})
        for wanted in ((False, False), (True, True), (False, True))
    ]


eig_p = register(
    Eig("eig"),
    TestFacts(
        ulp=256,
        excluded=(("jvp", "values and vectors are complex; tests/ops/test_linalg.py"),),
        samples=_eig_samples,
    ),
)
schur_p = register(
    Schur("schur"),
    TestFacts(
        ulp=256,
        excluded=(_NO_DERIVATIVE,),
        samples=lambda: [
            (
                [_SQUARE],
                {
                    "compute_schur_vectors": wanted,
                    "sort_eig_vals": False,
                    "select_callable": None,
                },
            )
            for wanted in (True, False)
        ],
    ),
)
hessenberg_p = register(
    Hessenberg("hessenberg"),
    TestFacts(ulp=64, excluded=(_NO_DERIVATIVE,), samples=lambda: [([_SQUARE], {})]),
)


def eig(
    x: Any,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Any]:
    """Eigenvalues of general matrices, then left and right eigenvectors as asked, all complex.

    Vectors are columns of length 1 with a real largest element. Their derivatives must be opted
    into by `enable_eigvec_derivs`.
    """
    if use_magma is not None:
        warnings.warn("use_magma is deprecated and has no effect", DeprecationWarning, stacklevel=2)
    if implementation not in (None, EigImplementation.LAPACK):
        raise ValueError("Only the lapack implementation is supported on CPU.")
    return eig_p.bind(
        wide(x)[0],
        compute_left_eigenvectors=compute_left_eigenvectors,
        compute_right_eigenvectors=compute_right_eigenvectors,
        enable_eigvec_derivs=enable_eigvec_derivs,
        implementation=implementation,
    )


def schur(
    x: Any,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> list[Any]:
    """[t] or [t, z] with x = z t zᴴ, z unitary, t upper triangular (2x2 blocks for real x)."""
    if sort_eig_vals:
        raise NotImplementedError("schur: sorting eigenvalues is not available")
    return schur_p.bind(
        as_value(x),
        compute_schur_vectors=compute_schur_vectors,
        sort_eig_vals=sort_eig_vals,
        select_callable=select_callable,
    )


def hessenberg(a: Any) -> tuple[Any, Any]:
    """(packed, factors): the Hessenberg form of `a`, with the reflections below it."""
    packed, factors = hessenberg_p.bind(as_value(a))
    return packed, factors


__all__ = [
    "EigImplementation",
    "eig",
    "eig_p",
    "hessenberg",
    "hessenberg_p",
    "masked",
    "schur",
    "schur_p",
]
