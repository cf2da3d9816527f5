"""SciPy-style functions: `tetrax.scipy`."""

from __future__ import annotations

from tetrax.scipy import linalg, special, stats

__all__ = ["linalg", "special", "stats"]
