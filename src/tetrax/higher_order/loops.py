"""Loops built on scan: `map`, `associative_scan`, and `reduce` with a user's function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import tree
from tetrax.higher_order.scan import scan
from tetrax.ops import axes as ax
from tetrax.ops.arithmetic import add, max, max_p, min, min_p, mul, mul_p
from tetrax.ops.bits_and_compare import and_p, bitwise_and, bitwise_or, bitwise_xor, or_p, xor_p
from tetrax.ops.join import concatenate, pad
from tetrax.ops.reduce import (
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_xor,
)
from tetrax.ops.shape import rev
from tetrax.ops.slicing import slice_in_dim
from tetrax.ops.structure import (
    broadcast_in_dim,
    full,
    reduce_sum,
    reshape,
    transpose,
)
from tetrax.runtime.array import as_value
from tetrax.tracing.staging import stage
from tetrax.tracing.value import get_aval
from tetrax.transforms.flat import check_argument_leaves, flatten_function
from tetrax.transforms.mapping import vmap


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """`f` applied to the slices of `xs` along their first axis, one after another.

    With `batch_size`, so many at a time (vmap inside scan).

    >>> map(lambda x: x + 1, np.arange(3))
    Array([1, 2, 3], dtype=int32)
    """
    if batch_size is None:
        return scan(lambda _, x: (None, f(x)), None, xs)[1]
    leaves, treedef = tree.flatten(xs)
    leaves = [as_value(x) for x in leaves]
    length = get_aval(leaves[0]).shape[0]
    count, rest = divmod(length, batch_size)
    parts = []
    if count:
        whole = [
            reshape(
                slice_in_dim(x, 0, count * batch_size),
                (count, batch_size, *get_aval(x).shape[1:]),
            )
            for x in leaves
        ]
        stacked = scan(lambda _, x: (None, vmap(f)(x)), None, tree.unflatten(treedef, whole))[1]
        parts.append(
            tree.map(lambda y: reshape(y, (count * batch_size, *get_aval(y).shape[2:])), stacked)
        )
    if rest or not parts:
        tail = [slice_in_dim(x, count * batch_size, length) for x in leaves]
        parts.append(vmap(f)(tree.unflatten(treedef, tail)))
    if len(parts) == 1:
        return parts[0]
    return tree.map(lambda *ys: concatenate(ys, 0), *parts)


# -- associative scan ------------------------------------------------------------------------------


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Inclusive scan of an associative `fn` along `axis`, in about 2 log2(n) vectorised steps.

    `fn` takes and gives trees like `elems`. G. Blelloch, "Prefix sums and their applications"
    (1990).

    >>> associative_scan(lambda a, b: a + b, np.arange(4))
    Array([0, 1, 3, 6], dtype=int32)
    """
    if not callable(fn):
        raise TypeError("lax.associative_scan: fn argument should be callable.")
    check_argument_leaves(fn, "associative_scan", ((elems,), {}))
    leaves, treedef = tree.flatten(elems)
    leaves = [as_value(x) for x in leaves]
    if not leaves:
        return elems
    axis = ax.canonical_axis(axis, get_aval(leaves[0]).ndim)
    length = get_aval(leaves[0]).shape[axis]
    for leaf in leaves[1:]:
        if get_aval(leaf).shape[axis] != length:
            raise ValueError(
                "Array inputs to associative_scan must have the same first dimension. (saw: "
                f"{[get_aval(x).shape for x in leaves]})"
            )
    if reverse:
        leaves = [rev(x, (axis,)) for x in leaves]

    def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        out = tree.leaves(fn(tree.unflatten(treedef, list(a)), tree.unflatten(treedef, list(b))))
        return [as_value(x) for x in out]

    results = _prefixes(combine, leaves, axis)
    if reverse:
        results = [rev(x, (axis,)) for x in results]
    return tree.unflatten(treedef, results)


def _prefixes(combine: Callable[..., list[Any]], elems: list[Any], axis: int) -> list[Any]:
    length = get_aval(elems[0]).shape[axis]
    if length < 2:
        return elems
    pairs = combine(
        [_strided(x, 0, length - 1, axis) for x in elems],
        [_strided(x, 1, length, axis) for x in elems],
    )
    odd = _prefixes(combine, pairs, axis)
    count = get_aval(odd[0]).shape[axis]
    before = odd if length % 2 else [slice_in_dim(x, 0, count - 1, axis=axis) for x in odd]
    later = [_strided(x, 2, length, axis) for x in elems]
    even = combine(before, later) if get_aval(later[0]).shape[axis] else later
    even = [
        concatenate([slice_in_dim(x, 0, 1, axis=axis), e], axis)
        for x, e in zip(elems, even, strict=True)
    ]
    return [_interleave(e, o, axis) for e, o in zip(even, odd, strict=True)]


def _strided(x: Any, start: int, stop: int, axis: int) -> Any:
    return slice_in_dim(x, start, stop, stride=2, axis=axis)


def _interleave(even: Any, odd: Any, axis: int) -> Any:
    """Elements of `even` at 0, 2, …, those of `odd` between them."""
    n_even, n_odd = get_aval(even).shape[axis], get_aval(odd).shape[axis]
    dtype = get_aval(even).dtype
    zero = full((), 0, dtype)
    spread = lambda low, high: [
        (low, high, 1) if i == axis else (0, 0, 0) for i in range(get_aval(even).ndim)
    ]
    first = pad(even, zero, spread(0, 1 if n_even == n_odd else 0))
    second = pad(odd, zero, spread(1, 0 if n_even == n_odd else 1))
    join = bitwise_or if dtype == np.bool_ else add
    return join(first, second)


# -- reduce ----------------------------------------------------------------------------------------

_MONOIDS: dict[Any, tuple[Callable[..., Any], Callable[..., Any]]] = {
    max_p: (reduce_max, max),
    min_p: (reduce_min, min),
    mul_p: (reduce_prod, mul),
    and_p: (reduce_and, bitwise_and),
    or_p: (reduce_or, bitwise_or),
    xor_p: (reduce_xor, bitwise_xor),
}


def known_monoid(computation: Callable[..., Any], aval: Any) -> Any:
    """The operation that `computation(x, y)` is, if it is a single one on its operands."""
    scalar_aval = aval.update(shape=(), weak_type=False)
    flat = flatten_function(computation, tree.structure(((0, 0), {})))
    closed, _ = stage(flat, [scalar_aval, scalar_aval])
    program = closed.program
    if len(program.eqns) != 1 or closed.consts:
        return None
    (eqn,) = program.eqns
    if list(eqn.invars) != list(program.invars) or list(program.outvars) != list(eqn.outvars):
        return None
    return eqn.primitive


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """Combine elements along `dimensions` by the associative `computation`, starting from `init`.

    Operands and initial values are trees of one structure, as `computation` takes and gives.

    >>> reduce(np.arange(4), 0, lambda a, b: a + b, (0,))
    Array(6, dtype=int32)
    """
    leaves, treedef = tree.flatten(operands)
    inits, init_tree = tree.flatten(init_values)
    if treedef != init_tree:
        raise ValueError(
            f"Operands must have the same tree structure as init_values: {treedef} vs. {init_tree}"
        )
    leaves = [as_value(x) for x in leaves]
    inits = [
        full((), init, get_aval(x).dtype)
        if isinstance(init, bool | int | float | complex)
        else as_value(init)
        for init, x in zip(inits, leaves, strict=True)
    ]
    dims = ax.canonical_axes(dimensions, get_aval(leaves[0]).ndim, "dimensions")
    if len(leaves) == 1 and treedef == tree.structure(0):
        found = known_monoid(computation, get_aval(leaves[0]))
        if found is not None and found.name == "add":
            return add(reduce_sum(leaves[0], dims), _wide(inits[0], leaves[0], dims))
        if found in _MONOIDS:
            whole, pair = _MONOIDS[found]
            return pair(whole(leaves[0], dims), _wide(inits[0], leaves[0], dims))
    return _reduce_by_scan(leaves, inits, treedef, computation, dims)


def _wide(init: Any, x: Any, dims: Sequence[int]) -> Any:
    return broadcast_in_dim(init, ax.without(get_aval(x).shape, dims), ())


def _reduce_by_scan(
    leaves: Sequence[Any],
    inits: Sequence[Any],
    treedef: Any,
    computation: Callable[[Any, Any], Any],
    dims: Sequence[int],
) -> Any:
    ndim = get_aval(leaves[0]).ndim
    kept = [i for i in range(ndim) if i not in dims]
    shape = tuple(get_aval(leaves[0]).shape[i] for i in kept)
    count = math.prod(get_aval(leaves[0]).shape[i] for i in dims)
    rows = [reshape(transpose(x, (*dims, *kept)), (count, *shape)) for x in leaves]
    step = computation
    for _ in kept:
        step = vmap(step)
    start = tree.unflatten(treedef, [broadcast_in_dim(i, shape, ()) for i in inits])
    turn = lambda carry, x: (step(carry, x), None)
    return scan(turn, start, tree.unflatten(treedef, rows), length=count)[0]
