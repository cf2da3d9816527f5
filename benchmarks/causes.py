"""Why rows fall short, by row; kept by hand, shown in the report beside the row's ratios."""

from __future__ import annotations

_SKINNY = "alone 8x1000 takes 0.32 ms, in turns with other libraries 0.8; not profiled"
_LOADED = "measured while other work ran; not seen in other runs, not profiled"

CAUSES: dict[str, str] = {
    "scatter_add_10m_into_1m": "results beyond the caches are summed on one thread",
    "segment_sum": "measured before copies were preferred to columns; 0.97 of JAX since",
    "argsort_1m_i32": "keys and positions in 64-bit words; PyTorch sorts 32-bit digits",
    "unique_1m": "the sort is followed by three more passes",
    "permutation_1m": "JAX's random stream sorts twice; the others shuffle in place",
    "argmax_10m": "the block of the maximum is found, then memory is read again",
    "matmul_512_f32": _LOADED,
    "matmul_2000_f32": _LOADED,
    "transposed_right_512": _LOADED,
    "skinny_1x1024": _SKINNY,
    "skinny_2x1024": _SKINNY,
    "skinny_4x1024": _SKINNY,
    "skinny_8x1024": _SKINNY,
    "skinny_8x1000": _SKINNY,
    "adam_10m": "fresh outputs are written beside the old state, PyTorch updates in place",
}
