"""The operation behind `shard_map` and `pmap`: the program of one device, run by all of a mesh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from typing import Any

from tetrax.higher_order.call import program_uses_axis, spread
from tetrax.ir.control import Manual
from tetrax.ir.layout import Layout
from tetrax.ir.program import ClosedProgram, Effects, Equation, needed_inputs, restrict
from tetrax.ir.types import ShapedArray
from tetrax.ops import axes as ax
from tetrax.ops.arithmetic import div
from tetrax.ops.collective import sum_over
from tetrax.ops.structure import full, reshape
from tetrax.tracing.primitive import Primitive, as_programs_say
from tetrax.tracing.staging import evaluate_closed, stage
from tetrax.tracing.symbolic import Zero, is_undefined
from tetrax.tracing.trace import current_trace, named_axes
from tetrax.tracing.value import get_aval
from tetrax.transforms.jvp import jvp_program
from tetrax.transforms.partial import PartialTrace, partial_eval_program
from tetrax.transforms.transpose import transpose_program
from tetrax.transforms.vmap import AxisData, batch_program


class ShardMap(Primitive):
    """`jaxpr` on parts of the operands, by every device of a mesh.

    `in_layouts` and `out_layouts` say along which of the axes `manual` the operands are cut and
    what the results are parts of. With `check_vma` the types in the program say what varies.
    """

    multiple_results = True
    varying = as_programs_say

    def shape(self, *avals, jaxpr, mesh, out_layouts, manual, **params):
        return [
            _whole(aval, layout, mesh).varying(aval.vma - manual)
            for aval, layout in zip(jaxpr.out_avals, out_layouts, strict=True)
        ]

    def effects(self, *avals: ShapedArray, jaxpr: ClosedProgram, **params: Any) -> Effects:
        return jaxpr.effects

    def structure(self, avals, *, jaxpr, mesh, manual, in_layouts, out_layouts, check_vma):
        return Manual(jaxpr, mesh, manual, in_layouts, out_layouts)

    def uses_axis(self, name: Any, params: dict) -> bool:
        inside = name in params["manual"]
        return name is not None and not inside and program_uses_axis(params["jaxpr"], name)

    def jvp(self, primals, tangents, *, jaxpr, in_layouts, out_layouts, **params):
        nonzero = tuple(type(t) is not Zero for t in tangents)
        with inside(params):
            made, out_nonzero = jvp_program(jaxpr, nonzero, False)
        outs = self.bind(
            *primals,
            *compress(tangents, nonzero),
            jaxpr=made,
            in_layouts=(*in_layouts, *compress(in_layouts, nonzero)),
            out_layouts=(*out_layouts, *compress(out_layouts, out_nonzero)),
            **params,
        )
        count = len(jaxpr.out_avals)
        avals = [get_aval(out) for out in outs[:count]]
        return outs[:count], spread(outs[count:], out_nonzero, avals)

    def batch_axis(self, axis: AxisData, operands, dims, *, jaxpr, in_layouts, **params):
        out_layouts = params.pop("out_layouts")
        with inside(params):
            made, out_dims = batch_program(jaxpr, axis, tuple(dims))
        names = () if axis.spmd_name is None else axis.spmd_name
        names = names if isinstance(names, tuple) else (names,)
        own = tuple(name for name in names if name in params["manual"])
        outs = self.bind(
            *operands,
            jaxpr=made,
            in_layouts=_with_axis(in_layouts, dims, own),
            out_layouts=_with_axis(out_layouts, out_dims, own),
            **params,
        )
        return outs, out_dims

    def partial(self, trace: PartialTrace, args, *, jaxpr, in_layouts, out_layouts, **params):
        unknown = tuple(trace.is_unknown(x) for x in args)
        known_in = [not u for u in unknown]
        with inside(params):
            known, later, out_unknown, avals = partial_eval_program(jaxpr, unknown, False)
            known, later = _with_residuals_of_rank_one(known, later, avals)
        known_out = [not u for u in out_unknown]
        residual_layouts = tuple(_residual_layout(aval, params) for aval in avals)
        with current_trace(trace.parent):
            results = self.bind(
                *compress(args, known_in),
                jaxpr=known,
                in_layouts=tuple(compress(in_layouts, known_in)),
                out_layouts=(*compress(out_layouts, known_out), *residual_layouts),
                **params,
            )
        count = sum(known_out)
        recorded = trace.record(
            self,
            [*results[count:], *compress(args, unknown)],
            {
                "jaxpr": later,
                "in_layouts": (*residual_layouts, *compress(in_layouts, unknown)),
                "out_layouts": tuple(compress(out_layouts, out_unknown)),
                **params,
            },
        )
        first, second = iter(results[:count]), iter(recorded)
        return [next(second) if u else next(first) for u in out_unknown]

    def transpose(self, cts, *operands, jaxpr, in_layouts, out_layouts, **params):
        linear = tuple(is_undefined(x) for x in operands)
        fixed = [not lin for lin in linear]
        nonzero = tuple(type(ct) is not Zero for ct in cts)
        ct_layouts = tuple(compress(out_layouts, nonzero))
        linear_layouts = list(compress(in_layouts, linear))
        with inside(params):
            made, has = transpose_program(jaxpr, linear, nonzero)
            if not params["check_vma"]:
                layouts = list(compress(linear_layouts, has))
                made = _with_sums(made, sum(fixed), ct_layouts, layouts, params)
        outs = iter(
            self.bind(
                *compress(operands, fixed),
                *compress(cts, nonzero),
                jaxpr=made,
                in_layouts=(*compress(in_layouts, fixed), *ct_layouts),
                out_layouts=tuple(compress(linear_layouts, has)),
                **params,
            )
        )
        flags = iter(has)
        return [
            (next(outs) if next(flags) else Zero(x.aval.to_cotangent_aval())) if lin else None
            for x, lin in zip(operands, linear, strict=True)
        ]

    def dce(self, eqn: Equation, used: Sequence[bool]) -> Equation:
        params = dict(eqn.params)
        needed = needed_inputs(params["jaxpr"].program, used)
        params["jaxpr"] = restrict(params["jaxpr"], needed, used)
        params["in_layouts"] = tuple(compress(params["in_layouts"], needed))
        params["out_layouts"] = tuple(compress(params["out_layouts"], used))
        return eqn.replace(
            invars=list(compress(eqn.invars, needed)),
            outvars=list(compress(eqn.outvars, used)),
            params=params,
        )


shard_map_p = ShardMap("shard_map")


@contextmanager
def inside(params: dict) -> Iterator[None]:
    """Where the program of one device may be traced: the names of the axes are known."""
    mesh = params["mesh"]
    sizes = {name: mesh.shape[name] for name in mesh.axis_names if name in params["manual"]}
    with named_axes(sizes, devices=True, tracked=params["check_vma"]):
        yield


def _whole(aval: ShapedArray, layout: Layout, mesh: Any) -> ShapedArray:
    """The type of what the parts of such a type make."""
    pairs = zip(aval.shape, layout, strict=True)
    return aval.update(
        shape=tuple(size * ax.product([mesh.shape[n] for n in names]) for size, names in pairs)
    )


def _with_axis(
    layouts: Sequence[Layout], dims: Sequence[int | None], names: tuple[Any, ...]
) -> tuple[Layout, ...]:
    """Layouts of arrays that have got a new axis, cut over `names`."""
    return tuple(
        layout if dim is None else (*layout[:dim], names, *layout[dim:])
        for layout, dim in zip(layouts, dims, strict=True)
    )


# -- residuals: values that the forward part keeps for the backward part, on each device ----------


def _with_residuals_of_rank_one(
    known: ClosedProgram, later: ClosedProgram, avals: Sequence[ShapedArray]
) -> tuple[ClosedProgram, ClosedProgram]:
    """Both programs with residuals that have an axis to be cut along: scalars get one."""
    scalar = [not aval.shape for aval in avals]
    if not any(scalar):
        return known, later
    count = len(known.out_avals) - len(avals)

    def first(*args: Any) -> tuple[list[Any], None]:
        outs = evaluate_closed(known, *args)
        grown = [
            reshape(x, (1,)) if is_scalar else x
            for x, is_scalar in zip(outs[count:], scalar, strict=True)
        ]
        return [*outs[:count], *grown], None

    def second(*args: Any) -> tuple[list[Any], None]:
        shrunk = [
            reshape(x, ()) if is_scalar else x
            for x, is_scalar in zip(args[: len(avals)], scalar, strict=True)
        ]
        return evaluate_closed(later, *shrunk, *args[len(avals) :]), None

    grown_avals = [
        aval.update(shape=(1,)) if is_scalar else aval
        for aval, is_scalar in zip(avals, scalar, strict=True)
    ]
    later_avals = [*grown_avals, *later.in_avals[len(avals) :]]
    return (
        stage(first, known.in_avals, known.program.debug_info)[0],
        stage(second, later_avals, later.program.debug_info)[0],
    )


def _residual_layout(aval: ShapedArray, params: dict) -> Layout:
    """Devices that have different values keep them apart, along the first axis."""
    names = aval.vma & params["manual"] if params["check_vma"] else params["manual"]
    ordered = tuple(name for name in params["mesh"].axis_names if name in names)
    return (ordered, *((),) * (max(aval.ndim, 1) - 1))


# -- without types that say what varies ------------------------------------------------------------


def _with_sums(
    made: ClosedProgram,
    fixed: int,
    ct_layouts: Sequence[Layout],
    layouts: Sequence[Layout],
    params: dict,
) -> ClosedProgram:
    """The transposed program where types don't say which devices have equal values.

    A result that is not cut over an axis counts as one value, so each device gets its share of the
    cotangent; an operand that is not cut was used by all, so their cotangents are summed.
    """
    mesh = params["mesh"]

    def missing(layout: Layout) -> list[Any]:
        named = {name for names in layout for name in names}
        return [name for name in mesh.axis_names if name in params["manual"] - named]

    def run(*args: Any) -> tuple[list[Any], None]:
        cts = []
        for ct, layout in zip(args[fixed:], ct_layouts, strict=True):
            aval = get_aval(ct)
            share = ax.product([mesh.shape[name] for name in missing(layout)])
            cts.append(ct if share == 1 else div(ct, full(aval.shape, share, aval.dtype)))
        outs = evaluate_closed(made, *args[:fixed], *cts)
        pairs = zip(outs, layouts, strict=True)
        return [sum_over(out, missing(layout)) for out, layout in pairs], None

    return stage(run, made.in_avals, made.program.debug_info)[0]
