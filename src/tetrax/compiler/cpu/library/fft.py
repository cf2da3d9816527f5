"""Fourier transforms of complex numbers, as LLVM text: of one block of lines at a time.

    void tetrax_fft_columns_f32(ptr in, ptr twiddles, ptr out, i64 elements, i64 lanes, i64 in_row,
                                i64 out_row, i64 n, i64 radices, i64 last, i64 last_place,
                                i64 inverse, float scale)
    void tetrax_fft_rows_f32(…the same…)
    void tetrax_fft_line_f32(ptr in, ptr twiddles, ptr out, i64 elements, i64 m, i64 radices,
                             i64 last, i64 last_place, i64 inverse, float scale)
    void tetrax_fft_split_f32(ptr in, ptr twiddles, ptr lane_twiddles, ptr block_twiddles, ptr out,
                              i64 elements, i64 lanes, i64 in_row, i64 n, i64 radices,
                              i64 inverse, i64 far)
    void tetrax_fft_join_f32(ptr in, ptr twiddles, ptr out, i64 elements, i64 lanes, i64 out_row,
                             i64 n, i64 radices, i64 last, i64 last_place, i64 inverse, i64 far,
                             float scale)

`columns` transforms `lanes` neighbouring columns of n numbers, `rows` so many rows, at most W, the
lanes of a cell; `in_row` and `out_row` are the distances of rows, in numbers. `line` transforms one
contiguous line of W m numbers. `split` transforms columns and leaves the results, times twiddles,
as lanes of panels that are `far` scalars apart; `join` transforms such panels into columns. Both do
lines of n1 n2 numbers. Panels between passes are memory of the thread.

`radices` are the passes' numbers, seven bits each and the first one lowest; `last` is the last one,
0 if n is 1, and `last_place` where its table is (`split` has all in `radices`). `inverse` exchanges
real and imaginary parts at both ends, and results are multiplied by `scale`, which must be 1
otherwise. `elements` is for who estimates.
"""

from __future__ import annotations

from collections.abc import Callable

from tetrax.compiler.cpu.library.fft_drivers import (
    COLUMNS,
    FINISH,
    JOIN,
    LINE,
    PANEL,
    PANELS,
    PARTS,
    ROWS,
    SPLIT,
    START,
)
from tetrax.compiler.cpu.library.fft_odd import OddPass
from tetrax.compiler.cpu.library.fft_passes import (
    OUTER_RADICES,
    Columns,
    First,
    Front,
    Last,
    Pass,
    Rows,
    Turn,
    first_name,
    last_name,
)
from tetrax.compiler.cpu.library.fft_real import Real
from tetrax.compiler.cpu.library.fft_text import cell_shape
from tetrax.compiler.cpu.llvm_text import register_type
from tetrax.compiler.cpu.target import Target
from tetrax.ir.kernel_types import ScalarType
from tetrax.ops.fft_plan import BUTTERFLIES

ROWS_AHEAD = 4
"""Rows of columns that are fetched before they are needed; of lines the next one is."""
_ROUTINES = ("columns", "rows", "line", "split", "join", "real", "unreal")


def fft_symbols(type: ScalarType) -> tuple[str, ...]:
    """The routines of an element type."""
    return tuple(f"tetrax_fft_{name}_{type}" for name in _ROUTINES)


def fft_module(type: ScalarType, target: Target) -> str:
    """The LLVM module of the routines."""
    shape = cell_shape(type, target)
    both = (False, True)
    functions = [
        *(Pass(shape, radix) for radix in BUTTERFLIES),
        OddPass(shape),
        *(First(shape, radix, swapped) for radix in OUTER_RADICES for swapped in both),
        *(Last(shape, radix, swapped) for radix in OUTER_RADICES for swapped in both),
        *(Front(shape, swapped) for swapped in both),
        *(Columns(shape, back, masked) for back in both for masked in both),
        *(Rows(shape, back) for back in both),
        Turn(shape),
        *(Real(shape, back) for back in both),
    ]
    drivers = (PANEL, PANELS, START, FINISH, COLUMNS, ROWS, LINE, SPLIT, JOIN)
    values = {
        "T": register_type(type),
        "TYPE": str(type),
        "PARTS": PARTS,
        "W": str(shape.lanes),
        "AHEAD": str(2 * ROWS_AHEAD),
        "PASSES": _cases("pass", BUTTERFLIES),
        "NO_ROOTS": ", ".join(f"[ 0, %pass{radix} ]" for radix in BUTTERFLIES),
        "PASS_CALLS": _calls("pass", BUTTERFLIES),
        "OUTER": _cases("outer", OUTER_RADICES),
        "FIRST_CALLS": _outer_calls(
            first_name,
            "ptr %memory, ptr %a, ptr %tw, i64 %m, i64 %row, i64 %ahead, i64 %blocks, i64 %pitch",
        ),
        "LAST_CALLS": _outer_calls(
            last_name,
            "ptr %in, ptr %memory, i64 %s, i64 %row, i64 %ahead, $T$ %scale, i64 %blocks, "
            "i64 %in_pitch",
        ),
    }
    text = "\n".join([*(function.text() for function in functions), *drivers])
    for _ in range(2):  # values hold further ones
        for name, value in values.items():
            text = text.replace(f"${name}$", value)
    return text


def _cases(name: str, radices: tuple[int, ...]) -> str:
    return " ".join(f"i64 {radix}, label %{name}{radix}" for radix in radices)


def _calls(name: str, radices: tuple[int, ...]) -> str:
    return "\n".join(
        f"{name}{radix}:\n"
        f"  call void @pass_{radix}(ptr %in, ptr %a, ptr %tw, i64 %m, i64 %s)\n"
        "  br label %next"
        for radix in radices
    )


def _outer_calls(name: Callable[[int, bool], str], arguments: str) -> str:
    lines = []
    for radix in OUTER_RADICES:
        lines.append(f"outer{radix}:\n  br i1 %swap, label %yes{radix}, label %no{radix}")
        for label, swapped in ((f"yes{radix}", True), (f"no{radix}", False)):
            lines.append(
                f"{label}:\n  call void @{name(radix, swapped)}({arguments})\n  br label %done"
            )
    return "\n".join(lines)


__all__ = ["fft_module", "fft_symbols"]
