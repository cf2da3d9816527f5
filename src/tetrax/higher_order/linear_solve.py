"""`custom_linear_solve` and `custom_root`: implicit derivatives of solvers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tetrax import tree
from tetrax.higher_order.call import hoist_consts
from tetrax.higher_order.custom_derivatives import custom_jvp
from tetrax.higher_order.inspect import closure_convert
from tetrax.ir.control import Inline
from tetrax.ir.program import ClosedProgram, Effects
from tetrax.ir.types import ShapedArray
from tetrax.ops.arithmetic import neg, sub
from tetrax.ops.base import instantiate
from tetrax.ops.structure import batch_at
from tetrax.runtime.array import as_value
from tetrax.tracing.primitive import Primitive, as_programs_say
from tetrax.tracing.staging import evaluate_closed, stage
from tetrax.tracing.symbolic import Zero, is_undefined
from tetrax.tracing.value import get_aval
from tetrax.transforms.derivatives import jvp as public_jvp
from tetrax.transforms.derivatives import linear_transpose, linearize
from tetrax.transforms.flat import check_argument_leaves, flatten_function
from tetrax.transforms.jvp import jvp as jvp_engine
from tetrax.transforms.vmap import AxisData, batch_program


class Programs(NamedTuple):
    """The four maps of a linear solve, each taking its constants first; None where not given."""

    matvec: ClosedProgram
    vecmat: ClosedProgram | None
    solve: ClosedProgram
    transpose_solve: ClosedProgram | None

    def transposed(self) -> Programs:
        if self.vecmat is None or self.transpose_solve is None:
            raise TypeError(
                "transpose_solve required for backwards mode automatic differentiation of "
                "custom_linear_solve"
            )
        return Programs(self.vecmat, self.matvec, self.transpose_solve, self.solve)


Lengths = tuple[int, int, int, int]


class LinearSolve(Primitive):
    """x with matvec(x) = b; operands are the constants of the four programs, then b."""

    multiple_results = True

    def shape(self, *avals: ShapedArray, jaxprs: Programs, const_lengths: Lengths):
        # The solution has the type of b; solve may give auxiliary results after it.
        return jaxprs.solve.out_avals

    varying = as_programs_say

    def effects(self, *avals: ShapedArray, jaxprs: Programs, const_lengths: Lengths) -> Effects:
        return jaxprs.solve.effects

    def structure(self, avals: Sequence[ShapedArray], *, jaxprs: Programs, const_lengths: Lengths):
        def run(*args: Any) -> tuple[list[Any], None]:
            consts, b = _split(args, const_lengths)
            return evaluate_closed(jaxprs.solve, *consts[2], *b), None

        return Inline(stage(run, avals)[0])

    def jvp(self, primals, tangents, *, jaxprs, const_lengths):
        """A dx = db - dA x."""
        outs = self.bind(*primals, jaxprs=jaxprs, const_lengths=const_lengths)
        consts, b = _split(primals, const_lengths)
        const_tangents, b_tangents = _split(tangents, const_lengths)
        count = len(b)
        x = outs[:count]
        rhs = [instantiate(t) for t in b_tangents]
        if any(type(t) is not Zero for t in const_tangents[0]):
            run = lambda *cs: (evaluate_closed(jaxprs.matvec, *cs, *x), None)
            _, pushed, _ = jvp_engine(run, consts[0], const_tangents[0])
            rhs = [r if type(p) is Zero else sub(r, p) for r, p in zip(rhs, pushed, strict=True)]
        if all(type(t) is Zero for t in tangents):
            return outs, [Zero.from_primal_value(o) for o in outs]
        flat = [c for group in consts for c in group]
        solved = self.bind(*flat, *rhs, jaxprs=jaxprs, const_lengths=const_lengths)
        # Auxiliary results of the solver are not differentiated.
        aux = [Zero.from_primal_value(o) for o in outs[count:]]
        return outs, [*solved[:count], *aux]

    def transpose(self, cts, *operands, jaxprs, const_lengths):
        consts, b = _split(operands, const_lengths)
        if any(is_undefined(c) for group in consts for c in group):
            raise NotImplementedError("custom_linear_solve is transposed in b only")
        count = len(b)
        if all(type(ct) is Zero for ct in cts[:count]):
            return [None] * (len(operands) - count) + [Zero(x.aval) for x in b]
        order = (1, 0, 3, 2)
        swapped = [consts[i] for i in order]
        lengths = tuple(const_lengths[i] for i in order)
        given = [instantiate(ct) for ct in cts[:count]]
        results = self.bind(
            *[c for group in swapped for c in group],
            *given,
            jaxprs=jaxprs.transposed(),
            const_lengths=lengths,
        )
        return [None] * (len(operands) - count) + list(results[:count])

    def batch_axis(self, axis: AxisData, operands, dims, *, jaxprs, const_lengths):
        values = [
            x if d is None else batch_at(x, d, axis.size)
            for x, d in zip(operands, dims, strict=True)
        ]
        dims = [None if d is None else 0 for d in dims]
        const_dims, b_dims = _split(dims, const_lengths)
        count = len(b_dims)
        x_batched = tuple(d is not None for d in b_dims)
        solve_dims: Sequence[int | None] = ()
        while True:
            x_dims = tuple(0 if flag else None for flag in x_batched)
            made, found = [], list(x_batched)
            for i, program in enumerate(jaxprs):
                if program is None:
                    made.append(None)
                    continue
                given = (*const_dims[i], *x_dims)
                force = (*x_batched, *(False,) * (len(program.out_avals) - count))
                closed, out_dims = batch_program(program, axis, given, force)
                made.append(closed)
                found = [f or d is not None for f, d in zip(found, out_dims[:count], strict=True)]
                if i == 2:
                    solve_dims = out_dims
            if tuple(found) == x_batched:
                break
            x_batched = tuple(found)
        b_start = len(values) - count
        values[b_start:] = [
            batch_at(x, d, axis.size) if flag else x
            for x, d, flag in zip(values[b_start:], b_dims, x_batched, strict=True)
        ]
        outs = self.bind(*values, jaxprs=Programs(*made), const_lengths=const_lengths)
        return outs, list(solve_dims)


linear_solve_p = LinearSolve("custom_linear_solve")


def _split(items: Sequence[Any], lengths: Lengths) -> tuple[list[list[Any]], list[Any]]:
    """The four groups of constants, and the rest."""
    groups, start = [], 0
    for length in lengths:
        groups.append(list(items[start : start + length]))
        start += length
    return groups, list(items[start:])


def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """`x = solve(matvec, b)`, differentiated as the solution of the linear system matvec(x) = b.

    `transpose_solve(vecmat, b)` solves the transposed system (needed for reverse mode; `symmetric`
    says that `solve` does). With `has_aux` the solvers give (x, aux).
    """
    if transpose_solve is None and symmetric:
        transpose_solve = solve
    check_argument_leaves(matvec, "custom_linear_solve", ((b,), {}))
    leaves, b_tree = tree.flatten(b)
    leaves = [as_value(x) for x in leaves]
    avals = [get_aval(x) for x in leaves]
    in_tree = tree.structure(((b,), {}))

    def staged(
        fun: Callable[..., Any], name: str, aux: bool
    ) -> tuple[ClosedProgram, Any, list[Any]]:
        closed, out_tree = stage(flatten_function(fun, in_tree), avals)
        solution = out_tree.children()[0] if aux else out_tree
        if solution != b_tree:
            raise TypeError(
                f"{name}() output pytree structure must match that of b, got {solution} and "
                f"{b_tree}."
            )
        for found, wanted in zip(closed.out_avals, avals, strict=False):
            if not found.same_type(wanted):
                raise TypeError(
                    f"{name}() output must match the type of b: got {found.str_short()}, expected "
                    f"{wanted.str_short()}"
                )
        closed, consts = hoist_consts(closed)
        return closed, out_tree, consts

    matvec_program, _, matvec_consts = staged(matvec, "matvec", False)
    solve_program, out_tree, solve_consts = staged(lambda v: solve(matvec, v), "solve", has_aux)
    vecmat_program = transpose_program = None
    vecmat_consts: list[Any] = []
    transpose_consts: list[Any] = []
    if transpose_solve is not None:
        if symmetric:
            vecmat = matvec
        else:
            transposed = linear_transpose(matvec, b)
            vecmat = lambda v: transposed(v)[0]
        vecmat_program, _, vecmat_consts = staged(vecmat, "transpose_matvec", False)
        solver = transpose_solve
        transpose_program, _, transpose_consts = staged(
            lambda v: solver(vecmat, v), "transpose_solve", has_aux
        )
    groups = (matvec_consts, vecmat_consts, solve_consts, transpose_consts)
    outs = linear_solve_p.bind(
        *[c for group in groups for c in group],
        *leaves,
        jaxprs=Programs(matvec_program, vecmat_program, solve_program, transpose_program),
        const_lengths=tuple(len(g) for g in groups),
    )
    return tree.unflatten(out_tree, outs)


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """`x = solve(f, initial_guess)` with f(x) = 0, differentiated by the implicit function theorem.

    `tangent_solve(g, y)` solves g(x) = y for a linear g. Derivatives are in what `f` closes over.
    """
    converted, consts = closure_convert(f, initial_guess)

    @custom_jvp
    def root(params: Sequence[Any], guess: Any) -> Any:
        return solve(lambda x: converted(x, *params), guess)

    @root.defjvp
    def root_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        params, guess = primals
        out = root(params, guess)
        x = out[0] if has_aux else out
        _, moved = public_jvp(lambda *ps: converted(x, *ps), tuple(params), tuple(tangents[0]))
        _, linear = linearize(lambda v: converted(v, *params), x)
        step = custom_linear_solve(
            linear,
            tree.map(neg, moved),
            lambda g, y: tangent_solve(g, y),
            transpose_solve=lambda g, y: tangent_solve(g, y),
        )
        if has_aux:
            zero = tree.map(lambda a: instantiate(Zero.from_primal_value(a)), out[1])
            return out, (step, zero)
        return out, step

    return root(list(consts), initial_guess)
