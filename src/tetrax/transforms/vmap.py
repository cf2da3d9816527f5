"""Batching: an operation on values with a batch axis, by one rule per operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tetrax.ir.program import ClosedProgram
from tetrax.ir.types import ShapedArray
from tetrax.ops import axes as ax
from tetrax.ops.structure import batch_at
from tetrax.tracing.staging import evaluate_closed, stage
from tetrax.tracing.trace import Trace, Tracer, current_trace, named_axes, state
from tetrax.tracing.value import get_aval
from tetrax.transforms.program_cache import cached_on_program


@dataclass(frozen=True)
class AxisData:
    """The mapped axis: name (None without one), size, and mesh axis it is spread over."""

    name: Any
    size: int
    spmd_name: Any = None
    explicit_mesh_axis: Any = None

    def sizes(self) -> dict[Any, int]:
        return {} if self.name is None else {self.name: self.size}


class BatchTracer(Tracer):
    """One element of a batch; the whole batch is `value`, along axis `dim`."""

    __slots__ = ("aval", "dim", "value")

    def __init__(self, trace: BatchTrace, value: Any, dim: int) -> None:
        self._trace = trace
        self.value = value
        self.dim = dim
        aval = get_aval(value)
        shape = ax.without(aval.shape, (dim,))
        self.aval = ShapedArray(shape, aval.dtype, aval.weak_type, aval.vma)

    def describe(self) -> str:
        size = get_aval(self.value).shape[self.dim]
        return f"one of {size} elements of type {self.aval.str_short()} mapped over by vmap"


class BatchTrace(Trace):
    """Applies batching rules; rules run under the parent trace."""

    __slots__ = ("axis", "parent")

    def __init__(self, parent: Trace, axis: AxisData) -> None:
        self.parent = parent
        self.axis = axis

    def pair(self, x: Any) -> tuple[Any, int | None]:
        if type(x) is BatchTracer and x._trace is self:
            return x.value, x.dim
        return x, None

    def wrap(self, value: Any, dim: int | None) -> Any:
        return value if dim is None else BatchTracer(self, value, dim)

    def process_primitive(self, primitive: Any, args: Sequence[Any], params: dict) -> Any:
        pairs = [self.pair(x) for x in args]
        values, dims = [v for v, _ in pairs], [d for _, d in pairs]
        parent = self.parent
        with current_trace(parent):
            if all(d is None for d in dims) and not primitive.uses_axis(self.axis.name, params):
                return parent.process_primitive(primitive, values, params)
            out, out_dim = primitive.batch_axis(self.axis, values, dims, **params)
        if primitive.multiple_results:
            return [self.wrap(v, d) for v, d in zip(out, _spread(out_dim, len(out)), strict=True)]
        return self.wrap(out, out_dim)

    def process_custom_jvp(self, primitive, fun, jvp, args, params):
        pairs = [self.pair(x) for x in args]
        values, dims = [v for v, _ in pairs], [d for _, d in pairs]
        if all(d is None for d in dims):
            with current_trace(self.parent):
                return self.parent.process_custom_jvp(primitive, fun, jvp, values, params)
        axis = self.axis

        def batched_fun(*xs: Any) -> tuple[list[Any], Any]:
            outs, out_dims, aux = batch(fun, axis, xs, dims)
            return outs, (aux, out_dims)

        def batched_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            count = len(primals)

            def flat(*xs: Any) -> tuple[list[Any], Any]:
                (outs, touts), aux = jvp(xs[:count], xs[count:])
                return [*outs, *touts], (aux, len(outs))

            both, both_dims, (aux, n) = batch(flat, axis, [*primals, *tangents], [*dims, *dims])
            out_dims = [
                0 if both_dims[i] is not None or both_dims[n + i] is not None else None
                for i in range(n)
            ]
            both = [
                x if want is None else batch_at(x, have, axis.size)
                for x, have, want in zip(both, both_dims, [*out_dims, *out_dims], strict=True)
            ]
            return (both[:n], both[n:]), (aux, out_dims)

        with current_trace(self.parent):
            outs, (aux, out_dims) = self.parent.process_custom_jvp(
                primitive, batched_fun, batched_jvp, values, params
            )
        return [self.wrap(v, d) for v, d in zip(outs, out_dims, strict=True)], aux

    def process_custom_vjp(self, primitive, fun, fwd, bwd, args, params):
        pairs = [self.pair(x) for x in args]
        values, dims = [v for v, _ in pairs], [d for _, d in pairs]
        if all(d is None for d in dims):
            with current_trace(self.parent):
                return self.parent.process_custom_vjp(primitive, fun, fwd, bwd, values, params)
        batched_fun, batched_fwd, batched_bwd = primitive.batched_rules(
            self.axis, batch, fun, fwd, bwd, dims
        )
        with current_trace(self.parent):
            outs, (aux, out_dims) = self.parent.process_custom_vjp(
                primitive, batched_fun, batched_fwd, batched_bwd, values, params
            )
        return [self.wrap(v, d) for v, d in zip(outs, out_dims, strict=True)], aux


def _spread(dims: Any, count: int) -> Sequence[Any]:
    return dims if isinstance(dims, list | tuple) else [dims] * count


def batch(
    fun: Callable[..., tuple[Sequence[Any], Any]],
    axis: AxisData,
    values: Sequence[Any],
    dims: Sequence[int | None],
) -> tuple[list[Any], list[int | None], Any]:
    """Results of `fun` for every element of the batch, their batch axes, and its aux."""
    trace = BatchTrace(state.trace, axis)
    with current_trace(trace), named_axes(axis.sizes()):
        outs, aux = fun(*[trace.wrap(v, d) for v, d in zip(values, dims, strict=True)])
    pairs = [trace.pair(out) for out in outs]
    return [v for v, _ in pairs], [d for _, d in pairs], aux


@cached_on_program
def batch_program(
    closed: ClosedProgram,
    axis: AxisData,
    dims: tuple[int | None, ...],
    force: tuple[bool, ...] | bool = False,
) -> tuple[ClosedProgram, tuple[int | None, ...]]:
    """The batched program and the batch axes of its results; axis 0 where `force` asks for one."""
    if isinstance(force, bool):
        force = (force,) * len(closed.out_avals)

    def fun(*args: Any) -> tuple[list[Any], tuple[int | None, ...]]:
        def run(*xs):
            return (evaluate_closed(closed, *xs), None)

        outs, out_dims, _ = batch(run, axis, args, dims)
        moved = [
            batch_at(x, d, axis.size) if d is not None or must else x
            for x, d, must in zip(outs, out_dims, force, strict=True)
        ]
        return moved, tuple(
            0 if d is not None or must else None for d, must in zip(out_dims, force, strict=True)
        )

    avals = [
        aval if d is None else aval.update(shape=ax.insert(aval.shape, d, axis.size))
        for aval, d in zip(closed.in_avals, dims, strict=True)
    ]
    return stage(fun, avals, closed.program.debug_info)
