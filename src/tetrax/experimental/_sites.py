"""Where a program can fail, and the program that reports it (see checkify.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tetrax import dtypes, lax, tree
from tetrax import numpy as jnp
from tetrax.errors import JaxRuntimeError
from tetrax.ir.control import Branch, Inline, Scan, While
from tetrax.ir.program import ClosedProgram, Effect, Effects, Equation, Literal, SourceLine
from tetrax.ir.types import ShapedArray
from tetrax.ops.base import instantiate
from tetrax.ops.structure import zeros
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.staging import evaluate_closed, stage
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.value import get_aval
from tetrax.transforms.vmap import AxisData

user_checks = frozenset({"user"})
nan_checks = frozenset({"nan"})
div_checks = frozenset({"div"})
index_checks = frozenset({"index"})
float_checks = nan_checks | div_checks

Payload = list[Any]
OOBError = JaxRuntimeError


@dataclass(frozen=True)
class Site:
    """One place that can fail: what it says, and the types of what its message quotes."""

    title: str
    payload: tuple[ShapedArray, ...] = ()
    treedef: Any = None
    source: SourceLine | None = None

    def message(self, values: Sequence[np.ndarray]) -> str:
        if self.treedef is not None:
            args, kwargs = tree.unflatten(self.treedef, list(values))
            text = self.title.format(*args, **kwargs)
        else:
            text = self.title + "".join(f" {v.tolist()}" for v in values)
        line = self.source
        where = f" ({line.file}:{line.line}, in {line.function})" if line is not None else ""
        return f"{text}{where}"

    def empty(self) -> Payload:
        """The state of a site that has not failed."""
        return [jnp.asarray(False), *(zeros(aval) for aval in self.payload)]


# -- the check operation ---------------------------------------------------------------------------

CHECK = Effect("check")


class Check(Primitive):
    """`pred` must hold; the other operands are quoted in the message."""

    multiple_results = True
    is_pure = False

    def shape(self, pred: ShapedArray, *payload: ShapedArray, **params: Any) -> list[ShapedArray]:
        return []

    def effects(self, *avals: ShapedArray, **params: Any) -> Effects:
        return frozenset({CHECK})

    def reference(self, pred: np.ndarray, *payload: np.ndarray, fmt, treedef, debug):
        if not debug and not pred.all():
            failed = int(np.argmin(pred.reshape(-1)))
            values = [
                p.reshape(-1, *p.shape[pred.ndim :])[failed] if pred.ndim else p for p in payload
            ]
            args, kwargs = tree.unflatten(treedef, values)
            raise JaxRuntimeError(fmt.format(*args, **kwargs))
        return []

    def structure(
        self, avals: Sequence[ShapedArray], *, fmt: str, debug: bool, **params: Any
    ) -> Any:
        if debug:
            return Inline(stage(lambda *xs: ([], None), avals)[0])
        raise ValueError(
            f"Cannot compile a checkify.check which was not functionalized (message {fmt!r}): "
            "wrap the "
            "jitted function in checkify.checkify"
        )

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        return self.bind(*primals, **params), []

    def transpose(self, cts: Any, *operands: Any, **params: Any) -> list[Any]:
        return [Zero(x.aval) if hasattr(x, "aval") else None for x in operands]

    def batch_axis(self, axis: AxisData, operands, dims, **params):
        moved = [
            jnp.broadcast_to(x, (axis.size, *get_aval(x).shape))
            if d is None
            else jnp.moveaxis(x, d, 0)
            for x, d in zip(operands, dims, strict=True)
        ]
        return self.bind(*moved, **params), []

    def stablehlo(self, context: Any, operands: Any, outs: Any, **params: Any) -> Any:
        raise self.missing("stablehlo")


check_p = Check("check")


# -- rewriting programs ----------------------------------------------------------------------------


def checked_program(
    closed: ClosedProgram, categories: frozenset[str]
) -> tuple[ClosedProgram, list[Site]]:
    """The program giving its results and then the state of every site, and the sites."""

    def run(*args: Any) -> tuple[list[Any], list[Site]]:
        outs, found = _run(closed, args, categories)
        return [*outs, *(x for _, state in found for x in state)], [site for site, _ in found]

    return stage(run, closed.in_avals, closed.program.debug_info)


Found = list[tuple[Site, Payload]]


def _run(
    closed: ClosedProgram, args: Sequence[Any], categories: frozenset[str]
) -> tuple[list[Any], Found]:
    program = closed.program
    values: dict[Any, Any] = dict(zip(program.constvars, closed.consts, strict=True))
    values.update(zip(program.invars, args, strict=True))
    read = lambda atom: atom.val if isinstance(atom, Literal) else values[atom]
    found: Found = []
    for eqn in program.eqns:
        operands = [read(atom) for atom in eqn.invars]
        outs, sites = _equation(eqn, operands, categories)
        found += sites
        values.update(zip(eqn.outvars, outs, strict=True))
    return [read(atom) for atom in program.outvars], found


def _equation(
    eqn: Equation, operands: list[Any], categories: frozenset[str]
) -> tuple[list[Any], Found]:
    primitive = eqn.primitive
    if primitive is check_p:
        return [], _user_check(eqn, operands) if "user" in categories else []
    structure = primitive.structure
    if structure is not None:
        described = structure([a.aval for a in eqn.invars], **eqn.params)
        rewrite = _STRUCTURES.get(type(described))
        if rewrite is not None:
            return rewrite(described, operands, categories)
    outs = primitive.rebind(operands, eqn.params)
    outs = list(outs) if primitive.multiple_results else [outs]
    return outs, _automatic(eqn, operands, outs, categories)


def _user_check(eqn: Equation, operands: list[Any]) -> Found:
    pred, *payload = operands
    avals = tuple(get_aval(p).strong() for p in payload)
    failed = lax.bitwise_not(pred)
    if get_aval(failed).shape:  # a mapped check: the first failing element speaks
        first = jnp.argmax(failed.reshape(-1))
        rank = get_aval(failed).ndim
        payload = [p.reshape(-1, *get_aval(p).shape[rank:])[first] for p in payload]
        avals = tuple(get_aval(p).strong() for p in payload)
        failed = jnp.any(failed)
    site = Site(eqn.params["fmt"], avals, eqn.params["treedef"], eqn.source_line())
    return [(site, [failed, *payload])]


def _automatic(
    eqn: Equation, operands: list[Any], outs: list[Any], categories: frozenset[str]
) -> Found:
    name, source = eqn.primitive.name, eqn.source_line()
    found: Found = []
    if "nan" in categories and _makes_nan(operands, outs):
        new = jnp.any(jnp.stack([jnp.any(jnp.isnan(o)) for o in outs if _inexact(o)]))
        old = [jnp.any(jnp.isnan(x)) for x in operands if _inexact(x)]
        had = jnp.any(jnp.stack(old)) if old else jnp.asarray(False)
        site = Site(f"nan generated by primitive: {name}.", (), None, source)
        found.append((site, [new & ~had]))
    if "div" in categories and name in ("div", "rem"):
        site = Site("division by zero", (), None, source)
        found.append((site, [jnp.any(jnp.asarray(operands[1]) == 0)]))
    if "index" in categories and name in _INDEXED:
        found += _INDEXED[name](eqn, operands, source)
    return found


def _inexact(x: Any) -> bool:
    return dtypes.issubdtype(get_aval(x).dtype, np.inexact)


def _makes_nan(operands: Sequence[Any], outs: Sequence[Any]) -> bool:
    return any(_inexact(o) for o in outs)


def _gather_site(eqn: Equation, operands: list[Any], source: Any) -> Found:
    dims, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    shape = get_aval(operands[0]).shape
    limits = [shape[axis] - sizes[axis] for axis in dims.start_index_map]
    return _index_site(operands[1], limits, shape, source)


def _scatter_site(eqn: Equation, operands: list[Any], source: Any) -> Found:
    dims = eqn.params["dimension_numbers"]
    shape, updates = get_aval(operands[0]).shape, get_aval(operands[2]).shape
    window = [1] * len(shape)
    batching = tuple(getattr(dims, "operand_batching_dims", ()))
    kept = [
        a for a in range(len(shape)) if a not in dims.inserted_window_dims and a not in batching
    ]
    for axis, position in zip(kept, dims.update_window_dims, strict=True):
        window[axis] = updates[position]
    limits = [shape[a] - window[a] for a in dims.scatter_dims_to_operand_dims]
    return _index_site(operands[1], limits, shape, source)


def _index_site(indices: Any, limits: Sequence[int], shape: Sequence[int], source: Any) -> Found:
    if not limits or 0 in get_aval(indices).shape:
        return []
    indices = jnp.asarray(indices)
    bad = (indices < 0) | (indices > jnp.asarray(limits, indices.dtype))
    worst = indices.reshape(-1, len(limits))[jnp.argmax(jnp.any(bad, -1).reshape(-1))]
    title = f"out-of-bounds indexing for array of shape {tuple(shape)}: index"
    site = Site(title, (get_aval(worst).strong(),), None, source)
    return [(site, [jnp.any(bad), worst])]


def _slice_site(eqn: Equation, operands: list[Any], source: Any) -> Found:
    skip = 2 if eqn.primitive.name == "dynamic_update_slice" else 1
    if len(operands) == skip:
        return []
    shape = get_aval(operands[0]).shape
    sizes = eqn.params.get("slice_sizes") or get_aval(operands[1]).shape
    starts = jnp.stack([jnp.asarray(x).astype(np.int32) for x in operands[skip:]])
    limits = [extent - size for extent, size in zip(shape, sizes, strict=True)]
    return _index_site(starts[None], limits, shape, source)


_INDEXED = {
    "gather": _gather_site,
    "dynamic_slice": _slice_site,
    "dynamic_update_slice": _slice_site,
    **dict.fromkeys(
        ("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"),
        _scatter_site,
    ),
}


# -- programs inside programs ----------------------------------------------------------------------


def _inline(described: Inline, operands: list[Any], categories: frozenset[str]):
    return _run(described.program, operands, categories)


def states_of(rest: Sequence[Any], sites: Sequence[Site]) -> list[Payload]:
    """The state of each site, from one flat list."""
    states, rest = [], list(rest)
    for site in sites:
        size = 1 + len(site.payload)
        states.append(rest[:size])
        rest = rest[size:]
    return states


def _merge(old: Payload, new: Payload) -> Payload:
    """The earlier failure stays."""
    keep = old[0]
    merged = [
        lax.select(keep, o, n) if not get_aval(o).shape else jnp.where(keep, o, n)
        for o, n in zip(old[1:], map(instantiate, new[1:]), strict=True)
    ]
    return [keep | new[0], *merged]


def _branch(described: Branch, operands: list[Any], categories: frozenset[str]):
    index, *args = operands
    checked = [checked_program(b, categories) for b in described.branches]
    count = len(described.branches[0].out_avals)
    sites = [site for _, own in checked for site in own]

    def run_branch(position: int):
        def run(*xs: Any) -> list[Any]:
            outs = evaluate_closed(checked[position][0], *xs)
            states = [
                x
                for i, (_, own) in enumerate(checked)
                for x in (
                    outs[count:] if i == position else [y for site in own for y in site.empty()]
                )
            ]
            return [*outs[:count], *states]

        return run

    outs = lax.switch(index, [run_branch(i) for i in range(len(checked))], *args)
    return list(outs[:count]), list(zip(sites, states_of(outs[count:], sites), strict=True))


def _scan(described: Scan, operands: list[Any], categories: frozenset[str]):
    checked, sites = checked_program(described.body, categories)
    first, last = described.consts, described.consts + described.carry
    consts = operands[:first]

    def turn(state: Any, xs: Any) -> tuple[Any, Any]:
        carry, old = state
        outs = evaluate_closed(checked, *consts, *carry, *xs)
        count = len(described.body.out_avals)
        new = states_of(outs[count:], sites)
        merged = [_merge(o, n) for o, n in zip(old, new, strict=True)]
        return (outs[: described.carry], merged), outs[described.carry : count]

    start = (operands[first:last], [site.empty() for site in sites])
    (carry, states), ys = lax.scan(
        turn, start, operands[last:], length=described.length, reverse=described.reverse
    )
    return [*carry, *ys], list(zip(sites, states, strict=True))


def _while(described: While, operands: list[Any], categories: frozenset[str]):
    condition, cond_sites = checked_program(described.condition, categories)
    body, body_sites = checked_program(described.body, categories)
    split = described.condition_consts + described.body_consts
    cond_consts = operands[: described.condition_consts]
    body_consts = operands[described.condition_consts : split]

    def test(carry: Any, old: list[Payload]) -> tuple[Any, list[Payload]]:
        outs = evaluate_closed(condition, *cond_consts, *carry)
        new = states_of(outs[1:], cond_sites)
        return outs[0], [_merge(o, n) for o, n in zip(old, new, strict=True)]

    def turn(state: Any) -> Any:
        _, carry, cond_states, body_states = state
        outs = evaluate_closed(body, *body_consts, *carry)
        count = len(described.body.out_avals)
        new = states_of(outs[count:], body_sites)
        merged = [_merge(o, n) for o, n in zip(body_states, new, strict=True)]
        going, cond_states = test(outs[:count], cond_states)
        return going, outs[:count], cond_states, merged

    carry = operands[split:]
    going, cond_states = test(carry, [site.empty() for site in cond_sites])
    start = (going, carry, cond_states, [site.empty() for site in body_sites])
    _, carry, cond_states, body_states = lax.while_loop(lambda s: s[0], turn, start)
    pairs = zip([*cond_sites, *body_sites], [*cond_states, *body_states], strict=True)
    return list(carry), list(pairs)


_STRUCTURES = {Inline: _inline, Branch: _branch, Scan: _scan, While: _while}
