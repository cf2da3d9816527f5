"""Kernel to LLVM IR text: explicit vectors, SSA with phis, nothing left for a pass pipeline to
do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tetrax.compiler.cpu.emit_folds import FOLD_RULES
from tetrax.compiler.cpu.emit_memory import MEMORY_RULES
from tetrax.compiler.cpu.emit_scalars import FUNCTION_RULES, SCALAR_RULES
from tetrax.compiler.cpu.emit_statements import emit_statement
from tetrax.compiler.cpu.emitter import Emitter
from tetrax.compiler.cpu.functions import Function, function_symbol
from tetrax.compiler.cpu.legalise import legal_expressions, legalise
from tetrax.compiler.cpu.llvm_text import register_type
from tetrax.compiler.cpu.target import Target
from tetrax.compiler.cpu.tiling import tile_transpositions
from tetrax.ir.kernel_expr import Buffer, make, new_variable
from tetrax.ir.kernel_operations import TRANSCENDENTAL_BINARY
from tetrax.ir.kernel_statements import Block, Kernel

_RULES = {**FUNCTION_RULES, **SCALAR_RULES, **MEMORY_RULES, **FOLD_RULES}
_FOOTER = '\n!0 = !{!"branch_weights", i32 1, i32 2000}\n'


@dataclass(frozen=True)
class FunctionText:
    """One function definition and the declarations it needs."""

    symbol: str
    definition: str
    declarations: frozenset[str]


def emit_kernel(
    kernel: Kernel, symbol: str, target: Target, check_bounds: bool = False, number: int = 0
) -> FunctionText:
    """The LLVM IR of a kernel as a function of a given name.

    The kernel must satisfy `ir.kernel_check`; `number` names it in bounds reports.
    """
    legal = legalise(tile_transpositions(kernel), target)
    emitter = Emitter(legal, target, _RULES, check_bounds)
    emitter.kernel_number, emitter.symbol = number, symbol
    parameters = _bind_parameters(emitter, legal)
    emit_statement(emitter, legal.body)
    emitter.effect("ret void")
    lines = "\n".join(emitter.scopes[0].lines)
    # What only hands work to the pool is not worth LLVM's effort.
    simple = emitter.functions and " phi " not in lines
    attributes = "nounwind optnone noinline" if simple else "nounwind"
    definition = (
        f"define void @{symbol}({', '.join(parameters)}) {attributes} {{\nentry:\n{lines}\n}}\n"
    )
    definitions = "\n".join([*emitter.functions, definition])
    return FunctionText(symbol, definitions, frozenset(emitter.declarations))


def emit_function(function: Function, target: Target) -> FunctionText:
    """The LLVM IR of an elementary function of vectors (or of scalars, for one lane)."""
    symbol = function_symbol(function.operation, function.type, function.lanes)
    operands = 2 if function.operation in TRANSCENDENTAL_BINARY else 1
    variables = [new_variable("x", function.type) for _ in range(operands)]
    node = make(function.operation, function.type, tuple(variables))
    emitter = Emitter(Kernel(symbol, (), (), Block(())), target, _RULES, check_bounds=False)
    kind = register_type(function.type, function.lanes)
    for at, variable in enumerate(variables):
        emitter.bind(variable, f"%x{at}", function.lanes)
    (legal,) = legal_expressions([node], target)
    emitter.effect(f"ret {kind} {emitter.operand(legal, function.lanes)}")
    parameters = ", ".join(f"{kind} %x{at}" for at in range(len(variables)))
    lines = "\n".join(emitter.scopes[0].lines)
    definition = f"define {kind} @{symbol}({parameters}) nounwind {{\nentry:\n{lines}\n}}\n"
    return FunctionText(symbol, definition, frozenset(emitter.declarations))


def module_text(functions: Iterable[FunctionText]) -> str:
    """One module of several functions."""
    functions = list(functions)
    own = {function.symbol for function in functions}
    declarations = set().union(*(f.declarations for f in functions))
    needed = sorted(d for d in declarations if not any(f"@{name}(" in d for name in own))
    return "\n".join([*needed, *(f.definition for f in functions)]) + _FOOTER


def _bind_parameters(emitter: Emitter, kernel: Kernel) -> list[str]:
    parameters = []
    inout = sum(1 for b in kernel.parameters if b.mode == "inout")
    for at, buffer in enumerate(kernel.parameters):
        parameters.append(f"ptr {_attributes(buffer, inout)}%b{at}")
        emitter.addresses[buffer] = f"%b{at}"
    for at, var in enumerate(kernel.scalars):
        parameters.append(f"{register_type(var.type)} %s{at}")
        emitter.bind(var, f"%s{at}")
    parameters.append("ptr noalias %scratch")
    for buffer, offset in kernel.temporary_offsets().items():
        emitter.addresses[buffer] = emitter.emit(f"getelementptr i8, ptr %scratch, i64 {offset}")
    return parameters


def _attributes(buffer: Buffer, inout: int) -> str:
    if buffer.mode == "in":
        return "noalias readonly "
    return "" if buffer.mode == "inout" and inout > 1 else "noalias "
