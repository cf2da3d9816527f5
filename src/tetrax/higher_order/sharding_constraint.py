"""Asking for a layout over devices, eagerly and inside programs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tetrax import tree
from tetrax.errors import IndivisibleError
from tetrax.ops.sharding import sharding_constraint_p
from tetrax.runtime.array import as_value
from tetrax.runtime.mesh_context import current_mesh
from tetrax.runtime.partition_spec import PartitionSpec, axes_of
from tetrax.runtime.placement import device_put
from tetrax.runtime.shardings import NamedSharding, Sharding
from tetrax.tracing.trace import Tracer
from tetrax.tracing.value import get_aval
from tetrax.transforms.flat import function_name


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The tree `x`, cut over devices as `shardings` says: a sharding, or a tree of them.

    Inside `jit` it tells the compiler where a value is to lie; outside it moves the array. A
    PartitionSpec refers to the mesh in force (`tetrax.set_mesh`). Raises ValueError where a size is
    not divided, or there is no mesh.

    >>> import numpy as np, tetrax
    >>> mesh = tetrax.make_mesh((1,), ("i",))
    >>> place = tetrax.NamedSharding(mesh, tetrax.P("i"))
    >>> with_sharding_constraint(np.arange(2), place)
    Array([0, 1], dtype=int32)
    """
    leaves, treedef = tree.flatten(x)
    wanted = tree.flatten_axes("with_sharding_constraint shardings", treedef, shardings)
    return tree.unflatten(treedef, constrained(leaves, wanted, "with_sharding_constraint"))


def constrained(
    leaves: Sequence[Any], shardings: Sequence[Any], what: str, names: Sequence[str] = ()
) -> list[Any]:
    """Each value with its sharding; None leaves it. Errors speak of the values' `names`."""
    found = []
    for index, (x, wanted) in enumerate(zip(leaves, shardings, strict=True)):
        who = f"{what}, {names[index]}" if index < len(names) else what
        try:
            value = x if wanted is None else _constrained(as_value(x), named(wanted, what), who)
        except IndivisibleError as error:
            raise IndivisibleError(f"{who}: {error}") from None
        found.append(value)
    return found


def named(sharding: Any, what: str) -> Sharding:
    """A sharding, where a PartitionSpec refers to the mesh in force."""
    if isinstance(sharding, PartitionSpec):
        mesh = current_mesh()
        if mesh.empty:
            raise RuntimeError(
                f"{what} requires a non-empty mesh if you are passing PartitionSpecs, got "
                f"{sharding}: pass a NamedSharding, or call it inside `with tetrax.set_mesh(mesh)`"
            )
        return NamedSharding(mesh, sharding)
    if not isinstance(sharding, Sharding):
        raise TypeError(f"{what} takes shardings or PartitionSpecs, got {sharding!r:.80}")
    return sharding


def _constrained(x: Any, sharding: Sharding, what: str) -> Any:
    if not isinstance(x, Tracer):
        return device_put(x, sharding)
    if not isinstance(sharding, NamedSharding):
        return x
    aval, spec = get_aval(x), sharding.spec
    if len(spec) > aval.ndim:
        raise ValueError(
            f"{what}: a value of type {aval.str_short()} has {aval.ndim} axes, too few for the "
            f"specification {spec}"
        )
    open_axis = PartitionSpec.UNCONSTRAINED
    closed = PartitionSpec(*(None if entry is open_axis else entry for entry in spec))
    sharding.with_spec(closed).shard_shape(aval.shape)  # raises where a size is not divided
    layout = tuple(None if entry is open_axis else axes_of(entry) for entry in spec)
    layout += ((),) * (aval.ndim - len(layout))
    return sharding_constraint_p.bind(x, mesh=sharding.mesh, layout=layout)


def reshard(xs: Any, out_shardings: Any) -> Any:
    """The tree `xs`, cut over devices as `out_shardings` says: a sharding, or a tree of them.

    Raises as `with_sharding_constraint` does.
    """
    leaves, treedef = tree.flatten(xs)
    wanted = tree.flatten_axes("reshard out_shardings", treedef, out_shardings)
    return tree.unflatten(treedef, constrained(leaves, wanted, "reshard"))


def auto_axes(
    f: Callable[..., Any] | None = None, /, *, axes: Any = None, out_sharding: Any = None
) -> Callable[..., Any]:
    """The function `f`, inside which the compiler cuts arrays, with results cut as asked.

    The compiler does so along all axes here, so `axes` changes nothing. `out_sharding` may be
    given at the call as well.
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)
    function, given = f, out_sharding

    @functools.wraps(function)
    def cut(*args: Any, out_sharding: Any = None, **kwargs: Any) -> Any:
        wanted = given if out_sharding is None else out_sharding
        if wanted is None:
            raise TypeError(f"auto_axes needs the out_sharding of {function_name(function)}")
        return reshard(function(*args, **kwargs), wanted)

    return cut


def explicit_axes(
    f: Callable[..., Any] | None = None, /, *, axes: Any = None, in_sharding: Any = None
) -> Callable[..., Any]:
    """The function `f` with its arguments cut as asked.

    `in_sharding`, a tree like the arguments, may be given at the call as well.
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)
    function, given = f, in_sharding

    @functools.wraps(function)
    def cut(*args: Any, in_sharding: Any = None, **kwargs: Any) -> Any:
        wanted = given if in_sharding is None else in_sharding
        if wanted is None:
            raise TypeError(f"explicit_axes needs the in_sharding of {function_name(function)}")
        return function(*reshard(args, wanted), **kwargs)

    return cut
