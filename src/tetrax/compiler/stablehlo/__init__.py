"""StableHLO, the exchange format of XLA: `lower_program` writes a program as its text."""

from __future__ import annotations

from tetrax.compiler.stablehlo.lower import Context, lower_program

__all__ = ["Context", "lower_program"]
