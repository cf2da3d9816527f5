"""Solvers for operators given as functions: `tetrax.scipy.sparse`."""

from __future__ import annotations

from tetrax.scipy.sparse import linalg

__all__ = ["linalg"]
