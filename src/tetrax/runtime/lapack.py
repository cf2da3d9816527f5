"""Addresses of LAPACK and BLAS routines, taken from SciPy's exported pointers.

Generated code calls them as `lapack_dpotrf`, `blas_dtrsm` …, with Fortran's convention: every
argument is a pointer, matrices are stored by columns, integers have 32 bits, and there are no
hidden length arguments (SciPy's wrappers add them). Nothing is loaded before the first use.
"""

from __future__ import annotations

import ctypes
import importlib
from functools import cache

from tetrax.runtime import llvm

# routines by the letters of the element types they exist for
_LAPACK: dict[str, tuple[str, ...]] = {
    "sdcz": (
        "potrf",  # Cholesky factor
        "potrs",
        "getrf",  # LU factors
        "getrs",
        "getri",
        "geqrf",  # Householder QR
        "geqp3",  # QR with column pivoting
        "trtrs",  # triangular solve
        "trtri",
        "gesdd",  # singular values, divide and conquer
        "gesvd",  # singular values, QR iteration
        "geev",  # eigenvalues of a general matrix
        "gees",  # Schur form
        "gtsv",  # tridiagonal solve
        "gebrd",  # to bidiagonal form
        "gehrd",  # to Hessenberg form
        "gelsd",  # least squares
        "trsyl",  # Sylvester equation
    ),
    "sd": (
        "orgqr",
        "ormqr",
        "orghr",
        "orgtr",
        "orgbr",
        "syevd",  # eigenvalues of a symmetric matrix
        "sytrd",  # to tridiagonal form
        "stedc",  # eigenvalues and vectors of a tridiagonal matrix, divide and conquer
        "laed2",  # its parts: deflation,
        "laed4",  # one root of the secular equation,
        "lamrg",  # and merging
        "bdsdc",  # singular values of a bidiagonal matrix, divide and conquer
        "sygvd",
        "stevd",  # eigenvalues of a tridiagonal matrix
        "stebz",
        "stein",
        "sterf",
    ),
    "cz": ("ungqr", "unmqr", "unghr", "ungtr", "ungbr", "heevd", "hetrd", "hegvd"),
}
_BLAS: dict[str, tuple[str, ...]] = {
    "sdcz": ("gemm", "trsm", "trmm", "gemv", "syrk"),
    "cz": ("herk",),
}
_MODULES = {"lapack": "scipy.linalg.cython_lapack", "blas": "scipy.linalg.cython_blas"}
_TABLES = {"lapack": _LAPACK, "blas": _BLAS}


@cache
def routine_names() -> frozenset[str]:
    """Every symbol that can be asked for, such as lapack_dpotrf."""
    return frozenset(
        f"{library}_{letter}{name}"
        for library, table in _TABLES.items()
        for letters, names in table.items()
        for letter in letters
        for name in names
    )


@cache
def routine_address(symbol: str) -> int | None:
    """The address of a routine, or None for a symbol that is not in the tables.

    >>> routine_address("lapack_dpotrf") is not None
    True
    """
    if symbol not in routine_names():
        return None
    library, _, name = symbol.partition("_")
    exported = importlib.import_module(_MODULES[library]).__pyx_capi__
    return _capsule_pointer(exported[name])


def _capsule_pointer(capsule: object) -> int:
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(capsule, name(capsule))


llvm.engine.provide(routine_address)
