"""The compiler on one screen: from a program to an executable."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tetrax.compiler.buffers import plan_arena
from tetrax.compiler.collector import without_collector
from tetrax.compiler.cpu.backend import KernelHandle, compile_driver, compile_kernels
from tetrax.compiler.cpu.driver_code import assembled_driver
from tetrax.compiler.device_groups import Meetings
from tetrax.compiler.donation import share_memory
from tetrax.compiler.driver_text import HOST_CALL_SYMBOL, DriverText
from tetrax.compiler.epilogues import fuse_epilogues
from tetrax.compiler.executable import HOST_CALL_ADDRESS, Executable
from tetrax.compiler.nest import nbytes
from tetrax.compiler.overlap import overlap_sums
from tetrax.compiler.passes.collectives import sum_after_moves
from tetrax.compiler.passes.control import unify_control
from tetrax.compiler.passes.cse import eliminate_common_subexpressions
from tetrax.compiler.passes.dce import eliminate_dead_code
from tetrax.compiler.passes.fold import fold_constants
from tetrax.compiler.passes.indices import absorb_wrapping
from tetrax.compiler.passes.inline import expand, inline
from tetrax.compiler.passes.loops import simplify_loops
from tetrax.compiler.passes.products import absorb_transposes
from tetrax.compiler.passes.simplify import simplify
from tetrax.compiler.passes.transforms import absorb_axis_moves
from tetrax.compiler.region import Module, Region
from tetrax.compiler.steps import ArgSlot, KernelStep, Step, TempSlot, nested
from tetrax.config import config
from tetrax.ir.check import check_closed
from tetrax.ir.control import Inline
from tetrax.ir.program import ClosedProgram
from tetrax.runtime import memory
from tetrax.runtime.llvm import engine

Pass = Callable[[ClosedProgram], ClosedProgram]

PASSES: tuple[Pass, ...] = (
    inline,  # first: the others see one straight line
    lambda closed: unify_control(closed, optimise),  # bodies first: loops are simplified with them
    eliminate_dead_code,
    fold_constants,
    simplify,  # after folding: it looks for constant operands
    eliminate_common_subexpressions,  # after simplifying: more equations are equal
    absorb_wrapping,
    absorb_axis_moves,
    sum_after_moves,  # before transposes are absorbed: products then write what is summed in order
    absorb_transposes,  # before loops are simplified: a residual may be a transposed weight
    simplify_loops,  # after merging: equal stacked values are one
    expand,  # late: the passes before know the operations as they are written
    eliminate_dead_code,  # what the passes before alone had needed
)


def optimise(closed: ClosedProgram) -> ClosedProgram:
    """All passes over one program and the programs of its control flow."""
    for run in PASSES:
        closed = run(closed)
        if config.enable_checks:
            check_closed(closed)
    return closed


@dataclass(frozen=True)
class Lowered:
    """A program in steps, what they share, the size of the arena, and for every result the operand
    whose memory it takes, or None.
    """

    steps: list[Step]
    module: Module
    arena_bytes: int
    sources: list[int | None]


def lower(
    closed: ClosedProgram, donated: Sequence[int] = (), meetings: Meetings | None = None
) -> Lowered:
    """The steps of a program; results may take the memory of `donated` operands.

    With `meetings` it is the program of one of several devices, which are told where they meet.
    """
    inputs, outputs = len(closed.in_avals), len(closed.out_avals)
    module = Module(first_constant=inputs + outputs, meetings=meetings or Meetings())
    in_slots = [ArgSlot(i) for i in range(inputs)]
    out_slots = [ArgSlot(inputs + i) for i in range(outputs)]
    steps = Region(module, optimise(closed), in_slots).lower(out_slots)
    steps = fuse_epilogues(steps)
    if module.meetings.sites:
        steps = overlap_sums(steps, module.meetings, lambda p: _is_early(module.meetings, p))
    shared = share_memory(steps, inputs, _candidates(closed, donated))
    for step in kernel_steps(shared.steps):
        step.kernel = module.cache.scheduled(step.kernel)
        scratch = step.kernel.scratch_bytes
        step.scratch = TempSlot(scratch) if scratch else None
    return Lowered(shared.steps, module, plan_arena(shared.steps), shared.sources)


def _is_early(meetings: Meetings, partition: int) -> bool:
    """Whether sums over these groups are begun while the work goes on."""
    wanted = config.overlap_collectives
    return meetings.is_spread(partition) if wanted == "auto" else wanted == "always"


def _candidates(closed: ClosedProgram, donated: Sequence[int]) -> list[list[int]]:
    """For every result the donated operands of its type; small results have memory enough."""
    operands = closed.in_avals
    return [
        [i for i in donated if operands[i].same_type(result)]
        if nbytes(result) >= memory.SMALLEST
        else []
        for result in closed.out_avals
    ]


def compile_program(closed: ClosedProgram, donated: Sequence[int] = ()) -> Executable:
    """Machine code for `closed`, whose constants must be concrete.

    The executable uses up the arrays at the positions `donated`.
    """
    with without_collector():
        return _compiled(closed, donated)


def compile_device_program(
    closed: ClosedProgram, meetings: Meetings, donated: Sequence[int] = ()
) -> Executable:
    """Machine code of the program of one of several devices; `meetings` learns where these meet.

    It can't be called itself: it needs the records of the devices.
    """
    with without_collector():
        return _compiled(closed, donated, meetings)


def _compiled(
    closed: ClosedProgram, donated: Sequence[int], meetings: Meetings | None = None
) -> Executable:
    lowered = lower(closed, donated, meetings)
    steps, module = lowered.steps, lowered.module
    called = list(kernel_steps(steps))
    handles = compile_kernels([step.kernel for step in called], temporary=True)
    record = module.first_constant + len(module.constants)
    driver = _driver(steps, dict(zip(called, handles, strict=True)), record, has_loops(closed))
    return Executable(
        driver.address,
        closed.in_avals,
        closed.out_avals,
        module.constants,
        lowered.arena_bytes,
        module.host_functions,
        keep=(driver, *handles),
        has_loops=has_loops(closed),
        sources=lowered.sources,
    )


def _driver(
    steps: Sequence[Step], kernels: dict[KernelStep, KernelHandle], record: int, loops: bool
) -> KernelHandle:
    """The function that runs the steps, written here or, on other machines, by LLVM."""
    driver = assembled_driver(steps, kernels, HOST_CALL_ADDRESS, record)
    if driver is not None:
        return driver
    engine.define(HOST_CALL_SYMBOL, HOST_CALL_ADDRESS)
    symbols = {step: handle.symbol for step, handle in kernels.items()}
    body = DriverText(symbols, record).text("{name}", steps)
    name = "tetrax_driver_" + hashlib.sha256(body.encode()).hexdigest()[:24]
    text = body.replace("@{name}", f"@{name}")
    return compile_driver(text, name, list(kernels.values()), once=not loops)


def has_loops(closed: ClosedProgram) -> bool:
    """Whether control flow decides how long the program takes."""
    for eqn in closed.eqns:
        structure = eqn.primitive.structure
        if structure is not None:
            held = structure([atom.aval for atom in eqn.invars], **eqn.params)
            if not isinstance(held, Inline) or has_loops(held.program):
                return True
    return False


def kernel_steps(steps: Sequence[Step]) -> Iterator[KernelStep]:
    """Every kernel step, those inside loops and branches too."""
    for step in steps:
        if isinstance(step, KernelStep):
            yield step
        for inner in nested(step):
            yield from kernel_steps(inner)
