"""Elementary functions as routines, one module for each number of lanes."""

from __future__ import annotations

from tetrax.compiler.cpu.emit import emit_function, module_text
from tetrax.compiler.cpu.functions import Function
from tetrax.compiler.cpu.target import Target


def function_module(function: Function, target: Target) -> str:
    """The text of one routine."""
    return module_text([emit_function(function, target)])
