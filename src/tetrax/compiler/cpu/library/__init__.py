"""Library routines with run-time sizes, called by symbol from generated code; compiled on first
use.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.registry import library_address

__all__ = ["library_address"]
