"""Why rows fall short, by row; kept by hand, shown in the report beside the row's ratios."""

from __future__ import annotations

_TIED = "within a few hundredths of JAX and OpenBLAS, to either side from run to run; not profiled"

CAUSES: dict[str, str] = {
    "scatter_add_10m_into_1m": "two copies of 4 MB, one a thread, beyond the second-level cache",
    "argsort_1m_i32": "keys and positions in 64-bit words; PyTorch sorts 32-bit digits",
    "permutation_1m": "JAX's random stream sorts twice; the others shuffle in place",
    "argmax_10m": "the block of the maximum is found, then memory is read again",
    "matmul_64_f32": "9 microseconds, of which the call takes one; less than PyTorch in other runs",
    "matmul_64_f64": "17 to 26 microseconds from run to run; not profiled",
    "matmul_128x784x512": "0.93 of JAX in the run before; not profiled",
    "matmul_512_f32": _TIED,
    "matmul_512_f64": _TIED,
    "matmul_1000_f32": _TIED,
}
