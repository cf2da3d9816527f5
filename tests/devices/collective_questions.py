"""What both JAX and Tetrax are asked about collectives under `pmap`, `shard_map` and `vmap`.

`collectives.json` holds JAX's answers. To write it anew:
`python -m tests.devices.collective_questions`. Operands are small whole numbers, multiples of what
is divided by, so that every result is exact and answers can be compared by a checksum.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

ORACLE = Path(__file__).with_name("collectives.json")

Function = Callable[[Any], Any]


def _halves(n: int) -> list[list[int]]:
    """Two groups, not of neighbours."""
    return [list(range(0, n, 2)), list(range(1, n, 2))]


def _ops(lax: Any, n: int, axis: Any = "i") -> dict[str, Function]:
    """What one device does with its matrix of n x n numbers."""
    cycle = [(k, (k + 1) % n) for k in range(n)]
    found: dict[str, Function] = {
        "psum": lambda v: lax.psum(v, axis),
        "pmean": lambda v: lax.pmean(v, axis),
        "pmax": lambda v: lax.pmax(v, axis),
        "pmin": lambda v: lax.pmin(v, axis),
        "psum of a row": lambda v: lax.psum(v[0], axis) * v,
        "psum of a tree": lambda v: lax.psum({"a": v, "b": v[0]}, axis)["b"] + v,
        "psum of one": lambda v: v * lax.psum(1, axis),
        "axis_index": lambda v: v * lax.axis_index(axis),
        "indexed": lambda v: v[(lax.axis_index(axis) + 1) % n] + v,
        "ppermute": lambda v: lax.ppermute(v, axis, cycle),
        "ppermute in part": lambda v: lax.ppermute(v, axis, cycle[1:]),
        "ppermute to itself": lambda v: lax.ppermute(v, axis, [(n - 1, n - 1), (0, 1)][: n - 1]),
        "ppermute of none": lambda v: lax.ppermute(v, axis, []),
        "pshuffle": lambda v: lax.pshuffle(v, axis, [*range(1, n), 0]),
        "pbroadcast": lambda v: lax.pbroadcast(v, axis, n - 1),
    }
    for at in (0, 1, 2, -1):
        found[f"all_gather {at}"] = lambda v, at=at: lax.all_gather(v, axis, axis=at)
    for at in (0, 1):
        found[f"all_gather tiled {at}"] = lambda v, at=at: lax.all_gather(
            v, axis, axis=at, tiled=True
        )
        found[f"pswapaxes {at}"] = lambda v, at=at: lax.pswapaxes(v, axis, at)
        for tiled in (False, True):
            found[f"psum_scatter {at} {tiled}"] = lambda v, at=at, tiled=tiled: lax.psum_scatter(
                v, axis, scatter_dimension=at, tiled=tiled
            )
            for to in (0, 1):
                found[f"all_to_all {at} {to} {tiled}"] = lambda v, at=at, to=to, tiled=tiled: (
                    lax.all_to_all(v, axis, at, to, tiled=tiled)
                )
    return found


def _grouped(lax: Any, n: int, axis: Any = "i") -> dict[str, Function]:
    groups = {"axis_index_groups": _halves(n)}
    half = n // 2
    return {
        "psum": lambda v: lax.psum(v, axis, **groups),
        "pmax": lambda v: lax.pmax(v, axis, **groups),
        "pmean": lambda v: lax.pmean(v, axis, **groups),
        "all_gather": lambda v: lax.all_gather(v, axis, axis=1, **groups),
        "all_gather tiled": lambda v: lax.all_gather(v, axis, axis=1, tiled=True, **groups),
        "psum_scatter": lambda v: lax.psum_scatter(v, axis, tiled=True, **groups),
        "psum_scatter whole": lambda v: lax.psum_scatter(v[:half], axis, **groups),
        "all_to_all": lambda v: lax.all_to_all(v[:half], axis, 0, 1, **groups),
        "all_to_all tiled": lambda v: lax.all_to_all(v, axis, 0, 1, tiled=True, **groups),
    }


def _maps(names: SimpleNamespace, n: int) -> dict[str, Callable[[Function], Function]]:
    """The transformations that map a function over n devices (or a batch axis)."""
    mesh = names.Mesh(np.array(names.devices()[:n]), ("i",))

    def sharded(f: Function, check_vma: bool) -> Function:
        def part(x: Any) -> Any:
            return names.tree_map(lambda y: y[None], f(x[0]))

        spec = names.P("i")
        return names.shard_map(part, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check_vma)

    return {
        "pmap": lambda f: names.pmap(f, "i"),
        "vmap": lambda f: names.vmap(f, axis_name="i"),
        "tracked": lambda f: sharded(f, True),
        "untracked": lambda f: sharded(f, False),
    }


def _uses(
    names: SimpleNamespace, weigh: Function
) -> dict[str, Callable[[Any, Function], Function]]:
    """What is done with a mapped function: `use(map, f)(x)`."""
    lax, grad = names.lax, names.grad
    loss = lambda f: lambda v: weigh(f(v * v))

    def loop(f: Function) -> Function:
        def turn(carry: Any, _: Any) -> Any:
            y = f(carry)
            return carry + y.sum(), y

        return lambda v: lax.scan(turn, v, None, length=2)

    def branch(f: Function) -> Function:
        twice = lambda v: f(v + v)
        return lambda v: lax.cond(lax.psum(v.sum(), "i") > 0, twice, f, v)

    def pushed(f: Function) -> Function:
        return lambda v: names.jvp(f, (v,), (v + 1,))

    def pulled(f: Function) -> Function:
        def run(v: Any) -> Any:
            out, back = names.vjp(f, v)
            return out, back(out * 9)[0]

        return run

    return {
        "value": lambda m, f: m(f),
        "grad inside": lambda m, f: m(grad(loss(f))),
        "grad": lambda m, f: grad(lambda x: weigh(m(f)(x * x))),
        "jvp inside": lambda m, f: m(pushed(f)),
        "jvp": lambda m, f: pushed(m(f)),
        "vjp": lambda m, f: pulled(m(f)),
        "jit": lambda m, f: names.jit(m(f)),
        "jit inside": lambda m, f: m(names.jit(f)),
        "scan": lambda m, f: m(loop(f)),
        "grad of scan": lambda m, f: grad(lambda x: weigh(m(loop(f))(x)[1])),
        "cond": lambda m, f: m(branch(f)),
        "grad of cond": lambda m, f: grad(lambda x: weigh(m(branch(f))(x))),
        "vmap inside": lambda m, f: (
            lambda x: m(lambda v: names.vmap(f, in_axes=1, out_axes=-1)(v))(np.stack([x, x + 1], 2))
        ),
        "vmap": lambda m, f: lambda x: names.vmap(m(f), in_axes=1)(np.stack([x, x + 1], 1)),
        "grad of vmap": lambda m, f: (
            lambda x: grad(lambda y: weigh(names.vmap(m(f), in_axes=2, out_axes=1)(y)))(
                np.stack([x, x + 1], 2)
            )
        ),
    }


def operand(n: int, *shape: int) -> np.ndarray:
    """Whole numbers that 24 divides, some of them negative."""
    size = int(np.prod((n, *shape)))
    values = (np.arange(size) * 7 % 11 - 4) * 24
    return values.reshape(n, *shape).astype(np.float32)


def _weigh(y: Any) -> Any:
    """A number that weighs the elements differently."""
    size = int(np.prod(y.shape))
    return (y * (np.arange(size) % 3 + 1).reshape(y.shape).astype(np.float32)).sum()


def checksum(result: Any) -> str:
    """Types and elements of a result."""
    words = []
    for leaf in result:
        array = np.asarray(leaf) + 0  # no negative zeros
        digest = hashlib.sha256(array.tobytes()).hexdigest()[:10]
        words.append(f"{array.dtype.name}{list(array.shape)} {float(array.sum().real):g} {digest}")
    return "; ".join(words)


def answer_of(names: SimpleNamespace, run: Callable[[], Any]) -> str:
    try:
        return checksum(names.leaves(run()))
    except Exception as error:
        kinds = (
            *(NotImplementedError, NameError, TypeError, ValueError, RuntimeError, KeyError),
            *(AssertionError, IndexError, Exception),
        )
        return "error " + next(kind.__name__ for kind in kinds if isinstance(error, kind))


OFTEN = ("value", "grad inside", "grad")
TYPICAL = (
    *("psum", "pmean", "psum of a row", "indexed", "ppermute in part", "pbroadcast"),
    *("all_gather 1", "all_gather tiled 1", "psum_scatter 1 True", "psum_scatter 0 False"),
    *("all_to_all 0 1 False", "all_to_all 1 0 True"),
)


def _asked(n: int, mapping: str, op: str, use: str) -> bool:
    """Three devices are asked everything; others what may differ."""
    if n == 3:
        return use in OFTEN or op in TYPICAL
    if n in (2, 8):
        return use == "grad" and mapping in ("pmap", "tracked")
    return use in ("value", "grad") and mapping != "vmap"


def grid(names: SimpleNamespace) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every question on one axis of devices: its name, and what answers it."""

    def answer(apply: Any, mapped: Any, f: Function, x: Any) -> Any:
        return apply(mapped, f)(x)

    uses = _uses(names, _weigh)
    for n in (3, 2, 6, 8):
        for mapping, mapped in _maps(names, n).items():
            for op, f in _ops(names.lax, n).items():
                for use in (use for use in uses if _asked(n, mapping, op, use)):
                    run = functools.partial(answer, uses[use], mapped, f, operand(n, n, n))
                    yield f"{n} {mapping} | {op} | {use}", run
    for mapping, mapped in _maps(names, 4).items():
        for op, f in _grouped(names.lax, 4).items():
            for use in (*OFTEN, "scan", "vmap inside", "vmap"):
                run = functools.partial(answer, uses[use], mapped, f, operand(4, 4, 4))
                yield f"4 {mapping} | groups {op} | {use}", run


SEMANTICS = (
    # What is the same for all devices is differentiated as one value.
    "grad(lambda w: sm(lambda w, v: psum((w * v).sum(), 'i'), (P(), P('i')), P())(w, x))(w)",
    "grad(lambda w: sm(lambda w, v: psum((w * v).sum(), 'i'), (P(), P('i')), P(), False)(w, x))(w)",
    "grad(lambda w: sm(lambda w, v: (w * v).sum(1), (P(), P('i')), P('i'))(w, x).sum())(w)",
    "sm(lambda w, v: grad(lambda w: (w * v).sum())(w), (P(), P('i')), P())(w, x)",
    "sm(lambda w, v: grad(lambda w: (w * v).sum())(w)[None], (P(), P('i')), P('i'), False)(w, x)",
    "sm(lambda w, v: grad(lambda w: (lax.pcast(w, 'i', to='varying') * v).sum())(w)[None],"
    " (P(), P('i')), P('i'))(w, x)",
    "sm(lambda w, v: grad(lambda w: psum((w * v).sum(), 'i'))(w), (P(), P('i')), P())(w, x)",
    "sm(lambda w, v: grad(lambda w: pmean((w * v).sum(), 'i'))(w), (P(), P('i')), P())(w, x)",
    "sm(lambda w, v: grad(lambda v: psum((w * v).sum(), 'i'))(v), (P(), P('i')), P('i'))(w, x)",
    "sm(lambda w: grad(lambda w: (w * 2).sum())(w), P(), P())(w)",
    "sm(lambda w: grad(lambda w: (w * lax.axis_index('i')).sum())(w), P(), P())(w)",
    "sm(lambda v: grad(lambda v: (v + psum(v, 'i')).sum())(v), P('i'), P('i'))(x)",
    "sm(lambda v: grad(lambda v: (v * 3).sum())(psum(v, 'i')), P('i'), P())(x)",
    "sm(lambda v: jvp(lambda v: psum(v * v, 'i'), (v,), (v,)), P('i'), P())(x)",
    # Carries, branches and derivatives of one's own.
    "sm(lambda v: lax.scan(lambda c, u: (c + u.sum(), c * u), 0.0, v)[1], P('i'), P('i'))(x)",
    "sm(lambda v: lax.scan(lambda c, u: (c + u.sum(), c * u), lax.pcast(0.0, 'i', to='varying'),"
    " v)[1], P('i'), P('i'))(x)",
    "sm(lambda v: lax.fori_loop(0, 3, lambda k, c: c + psum(v, 'i').sum(), 0.0), P('i'), P())(x)",
    "sm(lambda v: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2 + "
    "psum(c[1], 'i')), (0, v))[1], P('i'), P('i'))(x)",
    "grad(lambda w: sm(lambda w, v: psum(lax.scan(lambda c, u: (c * w + u, None), v[0] * 0, v)[0]"
    ".sum(), 'i'), (P(), P('i')), P())(w, x))(w)",
    "grad(lambda w: sm(lambda w, v: psum(lax.scan(lambda c, u: (c + w * u, w), v[0] * 0, v)[0]"
    ".sum(), 'i'), (P(), P('i')), P())(w, x))(w)",
    "grad(lambda w: sm(lambda w, v: psum(lax.cond(v.sum() > 0, lambda: w * v, lambda: v - w)"
    ".sum(), 'i'), (P(), P('i')), P())(w, x))(w)",
    "grad(lambda w: sm(lambda w, v: psum(checkpoint(lambda w, v: w * v * v)(w, v).sum(), 'i'), "
    "(P(), P('i')), P())(w, x))(w)",
    "grad(lambda w: sm(lambda w, v: psum(twice(w * v).sum(), 'i'), (P(), P('i')), P())(w, x))(w)",
    "grad(lambda w: sm(lambda w, v: psum(thrice(w * v).sum(), 'i'), (P(), P('i')), P())(w, x))(w)",
    "jit(sm(jit(lambda v: psum(v, 'i') - v), P('i'), P('i')))(x)",
    "hessian(lambda w: sm(lambda w, v: psum((w * w * v).sum(), 'i'), (P(), P('i')), P())(w, x))(w)",
    "linearize(lambda w: sm(lambda w, v: psum(w * w * v, 'i'), (P(), P('i')), P())(w, x), w)[1](w)",
    "jacrev(lambda w: sm(lambda w: w * (lax.axis_index('i') + 1), P(), P('i'))(w))(w)",
    "jacfwd(lambda w: sm(lambda w: w * (lax.axis_index('i') + 1), P(), P('i'))(w))(w)",
    "vmap(lambda u: sm(lambda v: psum(v, 'i') * v, P('i'), P('i'))(u), in_axes=1)(x)",
    "sm(lambda v: v + w, P('i'), P('i'))(x)",
    "grad(lambda w: sm(lambda v: psum((v * w).sum(), 'i'), P('i'), P())(x))(w)",
    "jit(lambda u, w: sm(lambda v: v * w, P('i'), P('i'))(u))(x, w)",
    # Several axes.
    "sm2(lambda v: psum(v, ('i', 'j')), P('i', 'j'), P())(x)",
    "sm2(lambda v: psum(v, 'j'), P('i', 'j'), P('i'))(x)",
    "sm2(lambda v: v * lax.axis_index(('i', 'j')) + lax.axis_index(('j', 'i')), P('i', 'j'), "
    "P('i', 'j'))(x)",
    "sm2(lambda v: lax.all_gather(v, ('j', 'i'), tiled=True), P(('i', 'j')), P(('i', 'j')))(x)",
    "sm2(lambda v: lax.psum_scatter(v, ('i', 'j'), tiled=True), P(), P(('i', 'j')), False)(x)",
    "sm2(lambda v: lax.all_to_all(v, ('i', 'j'), 1, 0, tiled=True), P(('i', 'j')), P(('i', 'j')))"
    "(x)",
    "sm2(lambda v: lax.ppermute(v, ('i', 'j'), [(0, 3), (1, 2)]), P(('i', 'j')), P(('i', 'j')))(x)",
    "grad(lambda x: (sm2(lambda v: psum(v * v, 'i'), P('i', 'j'), P(None, 'j'))(x) ** 2).sum())(x)",
    "grad(lambda x: (sm2(lambda v: lax.pmean(v * v, ('j', 'i')), P('i', 'j'), P())(x)).sum())(x)",
    "vmap(vmap(lambda v: psum(v, ('i', 'j')), axis_name='j'), axis_name='i')(x)",
    "vmap(pmap(lambda v: psum(v, ('i', 'j')) * v, 'j'), axis_name='i')(x)",
    "pmap(vmap(lambda v: psum(v, ('i', 'j')) * v, axis_name='j'), 'i')(x)",
    "pmap(vmap(lambda v: lax.all_gather(v, 'j') + psum(v, 'i'), axis_name='j'), 'i')(x)",
    "pmap(vmap(lambda v: v * lax.axis_index(('i', 'j')), axis_name='j'), 'i')(x)",
    "grad(lambda x: pmap(vmap(lambda v: psum(v * v, ('j', 'i')), axis_name='j'), 'i')(x).sum())(x)",
    "smap(lambda v: v * 2 + lax.axis_index('i'), in_axes=0, out_axes=0, axis_name='i')(x)",
    # Types of elements and of shapes.
    *(
        f"pmap(lambda v: (psum(v, 'i'), pmax(v, 'i'), pmin(v, 'i'), lax.all_gather(v, 'i'), "
        f"lax.ppermute(v, 'i', [(0, 1)])), 'i')(x.astype('{dtype}'))"
        for dtype in (
            *("bfloat16", "float16", "int8", "int16", "int32", "uint8", "uint16", "uint32"),
        )
    ),
    "pmap(lambda v: (psum(v, 'i'), lax.all_gather(v, 'i'), lax.pshuffle(v, 'i', [3, 2, 1, 0])), "
    "'i')(x.astype('complex64') * (1 + 2j))",
    "pmap(lambda v: (psum(v, 'i'), lax.all_gather(v, 'i'), lax.pshuffle(v, 'i', [3, 2, 1, 0])), "
    "'i')(x > 0)",
    "pmap(lambda v: (psum(v, 'i'), pmax(v, 'i'), lax.all_gather(v, 'i')), 'i')(x[:, 0])",
    "pmap(lambda v: (psum(v, 'i'), pmax(v, 'i'), lax.all_gather(v, 'i')), 'i')(x[:, :0])",
    "pmap(lambda v: lax.axis_index('i'), 'i')(x), pmap(lambda v: psum(1, 'i'), 'i')(x)",
    "pmap(lambda v: psum(2.5, 'i'), 'i')(x), pmap(lambda v: pmean(3, 'i'), 'i')(x)",
    # pmap.
    "pmap(lambda a, b: a + b, in_axes=(0, None))(x, w)",
    "pmap(lambda a: a * 2, in_axes=1, out_axes=1)(x)",
    "pmap(lambda a: (a, a.sum()), 'i', out_axes=(1, 0))(x)",
    "pmap(lambda a: psum(a, 'i'), 'i', out_axes=None)(x)",
    "pmap(lambda t: t['a'] + t['b'], in_axes=({'a': 0, 'b': None},))({'a': x, 'b': w})",
    "pmap(lambda a, b: a * b, static_broadcasted_argnums=1)(x, 3)",
    "pmap(lambda a, *, k: a + k)(x, k=x)",
    "pmap(lambda: lax.axis_index('i'), 'i', axis_size=4)()",
    "pmap(lambda a: a, axis_size=4, devices=devices()[4:])(x)",
    "pmap(lambda a: pmap(lambda b: psum(b, 'j') + psum(b, 'i'), 'j')(a), 'i')(x[:2, :2])",
    "pmap(lambda a: a * w)(x)",
    "pmap(lambda a: a + 1).lower(x).compile()(x)",
    "pmap(lambda a: a, donate_argnums=0)(x)",
    "pmap(lambda a: a * 2)(x).sharding.num_devices",
    "[s.data.shape for s in pmap(lambda a: a * 2)(x).addressable_shards]",
    "pmap(lambda a: {'u': a, 'v': [a, None]})(x)['v'][0]",
)
MISTAKES = (
    "sm(lambda v: v, P('i'), P())(x)",
    "sm(lambda v: v, P('j'), P('i'))(x)",
    "sm(lambda v: v, P('i'), P('j'))(x)",
    "sm(lambda v: v, P('i'), P('i'))(x[:3])",
    "sm(lambda v: v.sum(), P('i'), P('i'))(x)",
    "sm(lambda v: v, (P('i'), P('i')), P('i'))(x)",
    "sm(lambda v: v, P('i', None, None), P('i'))(x)",
    "sm(lambda v: (v, v), P('i'), (P('i'),))(x)",
    "sm(lambda v: v, 3, P('i'))(x)",
    "sm(lambda v: v, P('i'), 3)(x)",
    "sm(lambda v: v, P(('i', 'i')), P('i'))(x)",
    "sm(3, P('i'), P('i'))(x)",
    "sm(lambda v: psum(v, 'q'), P('i'), P())(x)",
    "sm(lambda v: lax.cond(v.sum() > 0, lambda: 1.0, lambda: v.sum()), P('i'), P())(x)",
    "psum(x, 'i')",
    "lax.axis_index('i')",
    "lax.axis_size('i')",
    "pmap(lambda v: psum(v, 'q'), 'i')(x)",
    "pmap(lambda v: v)(np.zeros((9, 2)))",
    "pmap(lambda v: v)(3.0)",
    "pmap(lambda v: v, in_axes=2)(x)",
    "pmap(lambda v: v, in_axes=(0, 0))(x)",
    "pmap(lambda a, b: a)(x, x[:3])",
    "pmap(lambda: 1.0)()",
    "pmap(lambda v: v, in_axes=None)(x)",
    "pmap(lambda v: v, out_axes=5)(x)",
    "pmap(lambda v: v, devices=devices()[:2])(x)",
    "pmap(lambda v: v, axis_size=3)(x)",
    "pmap(lambda v: v if v[0] > 0 else -v)(x)",
    "pmap(lambda v: 'text')(x)",
    "pmap(lambda v: v)('text')",
    "pmap(3)(x)",
    "pmap(lambda v: lax.ppermute(v, 'i', [(0, 1), (0, 2)]), 'i')(x)",
    "pmap(lambda v: lax.pshuffle(v, 'i', [0, 0, 1, 2]), 'i')(x)",
    "pmap(lambda v: lax.psum_scatter(v, 'i', tiled=True), 'i')(x[:, :3])",
    "pmap(lambda v: lax.psum_scatter(v, 'i'), 'i')(x[:, :3])",
    "pmap(lambda v: lax.all_to_all(v, 'i', 0, 0), 'i')(x[:, :3])",
    "pmap(lambda v: psum(v, 'i', axis_index_groups=[[0, 1], [1, 2, 3]]), 'i')(x)",
    "pmap(lambda v: psum(v, 'i', axis_index_groups=[[0, 1]]), 'i')(x)",
    "pmap(lambda v: lax.all_gather(v, 'i', axis_index_groups=[[0], [1, 2, 3]]), 'i')(x)",
    "pmap(lambda v: pmap(lambda u: u, 'i')(v), 'i')(x[:2, :2])",
    "pmap(grad(lambda v: pmax(v, 'i').sum()), 'i')(x)",
    "lax.pcast(x, 'i', to='varying')",
    "sm(lambda v: lax.pcast(v, 'i', to='sideways'), P('i'), P('i'))(x)",
)


def _scope(names: SimpleNamespace) -> dict[str, Any]:
    """What the sources above speak of."""
    devices = np.array(names.devices()[:4])
    flat, square = names.Mesh(devices, ("i",)), names.Mesh(devices.reshape(2, 2), ("i", "j"))

    def over(mesh: Any) -> Callable[..., Any]:
        return lambda f, in_specs, out_specs, check_vma=True: names.shard_map(
            f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_vma
        )

    twice = names.custom_vjp(lambda v: v * 2)
    twice.defvjp(lambda v: (v * 2, v), lambda v, ct: (ct * 2 * v,))
    thrice = names.custom_jvp(lambda v: v * 3)
    thrice.defjvp(lambda v, t: (v[0] * 3, t[0] * 3 * v[0]))
    lax = names.lax
    return {
        **vars(names),
        **{name: getattr(lax, name) for name in ("psum", "pmean", "pmax", "pmin")},
        "np": np,
        "sm": over(flat),
        "sm2": over(square),
        "smap": lambda f, **axes: _under(names, flat, names.smap(f, **axes)),
        "twice": twice,
        "thrice": thrice,
        "x": operand(4, 4),
        "w": operand(4)[:4] / 24,
    }


def _under(names: SimpleNamespace, mesh: Any, f: Function) -> Function:
    def run(x: Any) -> Any:
        with names.set_mesh(mesh):
            return f(x)

    return run


def all_answers(names: SimpleNamespace) -> Iterator[tuple[str, str]]:
    """Every question with the answer of a library."""
    for name, run in questions(names):
        yield name, answer_of(names, run)


def questions(names: SimpleNamespace) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names of all questions, and what answers them."""
    yield from grid(names)
    scope = _scope(names)
    for kind, sources in (("semantics", SEMANTICS), ("mistake", MISTAKES)):
        for source in sources:
            yield f"{kind} | {source}", functools.partial(eval, source, scope)


def names_of(library: str) -> SimpleNamespace:
    """The names that the questions use, of `jax` or `tetrax`."""
    root = importlib.import_module(library)
    lax = importlib.import_module(f"{library}.lax")
    tree_module = importlib.import_module(f"{library}.tree")
    return SimpleNamespace(
        lax=lax,
        devices=root.devices,
        Mesh=root.sharding.Mesh,
        P=root.P,
        tree_map=tree_module.map,
        leaves=tree_module.leaves,
        **{
            name: getattr(root, name)
            for name in (
                *("checkpoint", "custom_jvp", "custom_vjp", "grad", "hessian", "jacfwd", "jacrev"),
                *(
                    "jit",
                    "jvp",
                    "linearize",
                    "pmap",
                    "set_mesh",
                    "shard_map",
                    "smap",
                    "vjp",
                    "vmap",
                ),
            )
            if hasattr(root, name)
        },
    )


if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    answers = dict(all_answers(names_of("jax")))
    lines = [f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in answers.items()]
    ORACLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
