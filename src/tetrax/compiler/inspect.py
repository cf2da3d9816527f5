"""Looking inside: texts of every stage, and what a program costs."""

from __future__ import annotations

from dataclasses import dataclass

from tetrax.compiler.costs import program_costs
from tetrax.compiler.cpu.backend import kernel_llvm
from tetrax.compiler.device_groups import DeviceAxes, Meetings
from tetrax.compiler.driver_text import DriverText
from tetrax.compiler.executable import Executable
from tetrax.compiler.nest import nbytes
from tetrax.compiler.pipeline import Lowered, kernel_steps, lower, optimise
from tetrax.compiler.stablehlo.lower import lower_program
from tetrax.ir.kernel_printer import text as kernel_text
from tetrax.ir.program import ClosedProgram
from tetrax.runtime.llvm import assembly


def stage_text(closed: ClosedProgram, stage: str, axes: DeviceAxes | None = None) -> str:
    """The text of one stage of compiling `closed`. Raises ValueError for an unknown stage.

    With `axes` it is the program of one of several devices.
    """
    writers = {
        "program": lambda: str(closed),
        "jaxpr": lambda: str(closed),
        "optimised": lambda: str(optimise(closed)),
        "kernels": lambda: "\n\n".join(kernel_text(step.kernel) for step in _kernels(closed, axes)),
        "driver": lambda: _driver_text(closed, axes),
        "llvm": lambda: "\n".join(kernel_llvm(step.kernel) for step in _kernels(closed, axes)),
        "stablehlo": lambda: lower_program(closed),
        "asm": lambda: "\n".join(assembly(kernel_llvm(s.kernel)) for s in _kernels(closed, axes)),
    }
    if stage not in writers:
        raise ValueError(f"no stage {stage!r}; there are {', '.join(writers)}")
    return writers[stage]()


def _lowered(closed: ClosedProgram, axes: DeviceAxes | None) -> Lowered:
    return lower(closed, meetings=Meetings(axes) if axes is not None else None)


def _kernels(closed: ClosedProgram, axes: DeviceAxes | None) -> list:
    return list(kernel_steps(_lowered(closed, axes).steps))


def _driver_text(closed: ClosedProgram, axes: DeviceAxes | None) -> str:
    steps = _lowered(closed, axes).steps
    symbols = {step: f"kernel{i}" for i, step in enumerate(kernel_steps(steps))}
    return DriverText(symbols).text("driver", steps)


def cost_analysis(closed: ClosedProgram) -> dict[str, float]:
    """Estimates from the optimised program: a flop per element and equation, more for products."""
    flops = program_costs(optimise(closed)).flops
    moved = sum(nbytes(a) for a in (*closed.in_avals, *closed.out_avals))
    return {"flops": flops, "bytes accessed": float(moved)}


@dataclass(frozen=True)
class MemoryStats:
    """Bytes one call of a compiled function needs."""

    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int
    constant_size_in_bytes: int
    alias_size_in_bytes: int = 0
    generated_code_size_in_bytes: int = 0


def memory_analysis(executable: Executable) -> MemoryStats:
    """What `executable` needs, by kind of memory."""
    return MemoryStats(
        sum(nbytes(a) for a in executable.in_avals),
        sum(nbytes(a) for a in executable.out_avals),
        executable.arena_bytes,
        sum(c.nbytes for c in executable.constants),
    )
