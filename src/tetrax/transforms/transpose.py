"""Transposition: run a linear program backwards, from cotangents to cotangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tetrax.ir.program import ClosedProgram, Literal, Program, Var
from tetrax.ops.base import add_tangents, instantiate
from tetrax.ops.collective import sum_over, vary_over
from tetrax.tracing.source import inherit_source
from tetrax.tracing.staging import stage
from tetrax.tracing.symbolic import UndefinedPrimal, Zero, is_undefined
from tetrax.tracing.value import get_aval
from tetrax.transforms.program_cache import cached_on_program


def backward_pass(
    program: Program, consts: Sequence[Any], operands: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Cotangents of the `UndefinedPrimal` operands of a program linear in them.

    Equations that do not depend on an undefined operand are run forward first.
    """
    values: dict[Var, Any] = dict(zip(program.constvars, consts, strict=True))
    linear: set[Var] = set()
    for var, operand in zip(program.invars, operands, strict=True):
        if is_undefined(operand):
            linear.add(var)
        else:
            values[var] = operand
    linear_eqns = []
    for eqn in program.eqns:
        if any(atom in linear for atom in eqn.invars if isinstance(atom, Var)):
            linear.update(eqn.outvars)
            linear_eqns.append(eqn)
            continue
        outs = eqn.primitive.rebind([_read(values, a) for a in eqn.invars], eqn.params)
        outs = outs if eqn.primitive.multiple_results else [outs]
        values.update(zip(eqn.outvars, outs, strict=True))

    pending: dict[Var, Any] = {}
    for atom, ct in zip(program.outvars, cotangents, strict=True):
        _accumulate(pending, linear, atom, ct)
    for eqn in reversed(linear_eqns):
        _transpose_equation(eqn, values, linear, pending)
    return [
        pending.get(var, Zero(var.aval.to_cotangent_aval())) if is_undefined(operand) else None
        for var, operand in zip(program.invars, operands, strict=True)
    ]


def _transpose_equation(
    eqn: Any, values: dict[Var, Any], linear: set[Var], pending: dict[Var, Any]
) -> None:
    cts = [pending.pop(v, None) for v in eqn.outvars]
    if all(ct is None or type(ct) is Zero for ct in cts):
        return
    cts = [
        Zero(v.aval.to_cotangent_aval()) if ct is None else ct
        for v, ct in zip(eqn.outvars, cts, strict=True)
    ]
    operands = [
        UndefinedPrimal(a.aval) if isinstance(a, Var) and a in linear else _read(values, a)
        for a in eqn.invars
    ]
    primitive = eqn.primitive
    given = cts if primitive.multiple_results else cts[0]
    outer = inherit_source(None)
    inherit_source(eqn.source or outer)
    try:
        results = primitive.transpose(given, *operands, **eqn.params)
    finally:
        inherit_source(outer)
    for atom, ct in zip(eqn.invars, results, strict=True):
        if ct is not None:
            _accumulate(pending, linear, atom, ct)


def _read(values: dict[Var, Any], atom: Any) -> Any:
    return atom.val if isinstance(atom, Literal) else values[atom]


def _accumulate(pending: dict[Var, Any], linear: set[Var], atom: Any, ct: Any) -> None:
    if isinstance(atom, Var) and atom in linear and type(ct) is not Zero:
        given, wanted = get_aval(ct).vma, atom.aval.vma
        if given is not wanted:
            # What is the same for all devices was used by all of them: their cotangents are summed.
            # And the cotangent of what varies does too, though it happen to be the same for all.
            ct = vary_over(sum_over(ct, given - wanted), wanted - given)
        pending[atom] = add_tangents(pending[atom], ct) if atom in pending else ct


@cached_on_program
def transpose_program(
    closed: ClosedProgram, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
) -> tuple[ClosedProgram, tuple[bool, ...]]:
    """The program of `(non-linear inputs, nonzero cotangents) -> nonzero input cotangents`.

    Also says which linear inputs get a cotangent.
    """
    fixed_avals = [a for a, lin in zip(closed.in_avals, linear, strict=True) if not lin]
    ct_avals = [
        a.to_cotangent_aval() for a, has in zip(closed.out_avals, nonzero, strict=True) if has
    ]

    def fun(*args: Any) -> tuple[list[Any], tuple[bool, ...]]:
        fixed, given = iter(args[: len(fixed_avals)]), iter(args[len(fixed_avals) :])
        operands = [
            UndefinedPrimal(a) if lin else next(fixed)
            for a, lin in zip(closed.in_avals, linear, strict=True)
        ]
        cts = [
            next(given) if has else Zero(a.to_cotangent_aval())
            for a, has in zip(closed.out_avals, nonzero, strict=True)
        ]
        results = backward_pass(closed.program, closed.consts, operands, cts)
        results = [ct for ct, lin in zip(results, linear, strict=True) if lin]
        return (
            [instantiate(ct) for ct in results if type(ct) is not Zero],
            tuple(type(ct) is not Zero for ct in results),
        )

    return stage(fun, [*fixed_avals, *ct_avals], closed.program.debug_info)
