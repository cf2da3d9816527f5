"""Transpositions around Fourier transforms: axes are transformed where they stand."""

from __future__ import annotations

from collections import Counter

from tetrax.ir.atoms import DropVar, Var
from tetrax.ir.program import ClosedProgram, Equation
from tetrax.ops import axes as ax
from tetrax.ops.fft import FftType, fft_p
from tetrax.ops.fft_native import fft_axes_p
from tetrax.ops.fft_plan import has_columns, lanes_of
from tetrax.ops.structure import transpose_p

_COMPLEX = (FftType.FFT, FftType.IFFT)


def absorb_axis_moves(closed: ClosedProgram) -> ClosedProgram:
    """Complex transforms of axes that were moved to the end, and are moved back after it, as one
    operation each.
    """
    program = closed.program
    if all(eqn.primitive is not fft_p for eqn in program.eqns):
        return closed
    readers = Counter(a for eqn in program.eqns for a in eqn.invars if isinstance(a, Var))
    readers.update(a for a in program.outvars if isinstance(a, Var))
    definitions = {var: eqn for eqn in program.eqns for var in eqn.outvars}
    eqns = []
    for eqn in program.eqns:
        source = eqn.invars[0] if _is_move(eqn) else None
        transform = definitions.get(source) if isinstance(source, Var) else None
        if transform is not None and readers[transform.outvars[0]] == 1:
            eqn = _in_place(transform, eqn, definitions) or eqn
        eqns.append(eqn)
    return ClosedProgram(program.replace(eqns=eqns), closed.consts)


def _is_move(eqn: Equation) -> bool:
    return eqn.primitive is transpose_p and not isinstance(eqn.outvars[0], DropVar)


def _in_place(
    transform: Equation, back: Equation, definitions: dict[Var, Equation]
) -> Equation | None:
    """The transform of the axes where they were, if it can be done."""
    if transform.primitive is not fft_p or transform.params["fft_type"] not in _COMPLEX:
        return None
    kind, lengths = transform.params["fft_type"], transform.params["fft_lengths"]
    source = transform.invars[0]
    move = definitions.get(source) if isinstance(source, Var) else None
    if move is None or not _is_move(move):
        return None
    permutation = tuple(move.params["permutation"])
    if [permutation[i] for i in back.params["permutation"]] != list(range(len(permutation))):
        return None
    aval = move.invars[0].aval
    axes = tuple(sorted(permutation[len(permutation) - len(lengths) :]))
    narrow = any(
        axis != aval.ndim - 1 and ax.product(aval.shape[axis + 1 :]) < lanes_of(aval.dtype)
        for axis in axes
    )
    if narrow or aval.size == 0 or not has_columns(aval.shape, axes):
        return None
    params = {"axes": axes, "inverse": kind is FftType.IFFT}
    return back.replace(invars=[move.invars[0]], primitive=fft_axes_p, params=params)


__all__ = ["absorb_axis_moves"]
