"""`custom_vmap`: functions that bring their own batching rule."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tetrax import tree
from tetrax.higher_order.call import Call, hoist_consts, spread
from tetrax.higher_order.scan import scan
from tetrax.ir.program import ClosedProgram
from tetrax.ops.structure import batch_at
from tetrax.runtime.array import as_value
from tetrax.tracing.staging import evaluate_closed, stage
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.value import get_aval
from tetrax.transforms.flat import (
    check_argument_leaves,
    debug_info,
    flatten_function,
    flatten_output,
    function_name,
)
from tetrax.transforms.jvp import jvp_program
from tetrax.transforms.vmap import AxisData, batch_program


class CustomVmapCall(Call):
    """A call whose batching is `rule(axis_size, in_batched, *args)`."""

    def jvp(self, primals, tangents, *, jaxpr, rule, **params):
        nonzero = tuple(type(t) is not Zero for t in tangents)
        made, out_nonzero = jvp_program(jaxpr, nonzero, False)
        given = [t for t in tangents if type(t) is not Zero]
        outs = self.bind(
            *primals, *given, jaxpr=made, rule=_JvpOfRule(rule, nonzero, len(primals)), **params
        )
        count = len(jaxpr.out_avals)
        return outs[:count], spread(outs[count:], out_nonzero, jaxpr.out_avals)

    def batch_axis(self, axis: AxisData, operands, dims, *, jaxpr: ClosedProgram, rule, **params):
        values = [
            x if d is None else batch_at(x, d, axis.size)
            for x, d in zip(operands, dims, strict=True)
        ]
        if rule is None or isinstance(rule, _JvpOfRule):
            dims = tuple(None if d is None else 0 for d in dims)
            made, out_dims = batch_program(jaxpr, axis, dims)
            return evaluate_closed(made, *values), list(out_dims)
        outs, batched = rule(axis.size, [d is not None for d in dims], *values)
        return outs, [0 if b else None for b in batched]

    def partial(self, trace, args, **params):
        # The split program has no rule of its own: from here on it is an ordinary call.
        params = {k: v for k, v in params.items() if k != "rule"}
        return super().partial(trace, args, rule=None, **params)


class _JvpOfRule:
    """Stands for the rule of a differentiated call, which is batched through its program."""

    def __init__(self, rule: Any, nonzero: tuple[bool, ...], count: int) -> None:
        self.rule, self.nonzero, self.count = rule, nonzero, count


custom_vmap_call_p = CustomVmapCall("custom_vmap_call")


class custom_vmap:
    """A function whose `vmap` is given by `def_vmap`.

    >>> @custom_vmap
    ... def f(x):
    ...     return x + x
    >>> @f.def_vmap
    ... def rule(axis_size, in_batched, x):
    ...     return x + x, in_batched[0]
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.vmap_rule: Callable[..., Any] | None = None

    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set `rule(axis_size, in_batched, *args) -> (out, out_batched)`; returns it."""
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        check_argument_leaves(self.fun, "custom_vmap", (args, kwargs))
        leaves, in_tree = tree.flatten((args, kwargs))
        leaves = [as_value(x) for x in leaves]
        closed, out_tree = stage(
            flatten_function(self.fun, in_tree),
            [get_aval(x) for x in leaves],
            debug_info(self.fun, args, kwargs),
        )
        closed, consts = hoist_consts(closed)
        rule = None if self.vmap_rule is None else self._flat_rule(in_tree, len(consts))
        outs = custom_vmap_call_p.bind(
            *consts, *leaves, jaxpr=closed, rule=rule, name=function_name(self.fun)
        )
        return tree.unflatten(out_tree, outs)

    def _flat_rule(self, in_tree: Any, skip: int) -> Callable[..., tuple[list[Any], list[bool]]]:
        rule, name = self.vmap_rule, function_name(self.fun)
        assert rule is not None

        def flat(size: int, batched: list[bool], *values: Any) -> tuple[list[Any], list[bool]]:
            if any(batched[:skip]):
                raise ValueError(
                    f"custom_vmap function {name} closes over a value that is mapped: pass it as "
                    "an "
                    "argument"
                )
            args, _ = tree.unflatten(in_tree, values[skip:])
            flags, named = tree.unflatten(in_tree, batched[skip:])
            if named:
                raise ValueError("custom_vmap does not support keyword arguments under vmap")
            pair = rule(size, list(flags), *args)
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise ValueError(
                    f"vmap rule of {name} must return a pair (out, out_batched), got {pair!r:.60}"
                )
            outs, out_tree = flatten_output(rule, pair[0])
            marks, mark_tree = tree.flatten(pair[1])
            if mark_tree != out_tree:
                raise ValueError(
                    f"structure of output value and output batching specification returned by "
                    "custom "
                    f"vmap rule of {name} do not match: {out_tree} and {mark_tree}"
                )
            return outs, [bool(m) for m in marks]

        return flat


def sequential_vmap(fun: Callable[..., Any]) -> custom_vmap:
    """`fun`, whose `vmap` runs the elements one after another (a scan).

    >>> sequential_vmap(lambda x: x + x)(1.0)
    Array(2., dtype=float32, weak_type=True)
    """
    wrapped = custom_vmap(fun)

    @wrapped.def_vmap
    def rule(axis_size: int, in_batched: list[Any], *args: Any) -> tuple[Any, Any]:
        leaves, treedef = tree.flatten(args)
        marks = tree.leaves(tuple(in_batched))
        mapped = [x for x, m in zip(leaves, marks, strict=True) if m]

        def turn(_: None, xs: list[Any]) -> tuple[None, Any]:
            rest = iter(xs)
            full = [next(rest) if m else x for x, m in zip(leaves, marks, strict=True)]
            return None, wrapped(*tree.unflatten(treedef, full))

        _, out = scan(turn, None, mapped, length=axis_size)
        return out, tree.map(lambda _: True, out)

    return wrapped
