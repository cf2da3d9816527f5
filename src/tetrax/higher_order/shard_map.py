"""`shard_map`: a function of parts of arrays, run by every device of a mesh on its own parts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

from tetrax import tree
from tetrax.higher_order.call import hoist_consts
from tetrax.higher_order.shard_map_primitive import inside, shard_map_p
from tetrax.ir.layout import Layout, whole_layout
from tetrax.ir.types import ShapedArray
from tetrax.ops import axes as ax
from tetrax.ops.collective import pvary_p
from tetrax.runtime.array import as_value
from tetrax.runtime.mesh import AbstractMesh, Mesh
from tetrax.runtime.mesh_context import current_mesh
from tetrax.runtime.partition_spec import PartitionSpec, axes_of
from tetrax.runtime.shardings import NamedSharding
from tetrax.tracebacks import boundary
from tetrax.tracing.staging import stage
from tetrax.tracing.trace import state
from tetrax.tracing.value import get_aval
from tetrax.transforms.derivatives import documented
from tetrax.transforms.flat import (
    argument_path,
    check_argument_leaves,
    debug_info,
    flatten_function,
    function_name,
)


class _Infer:
    def __repr__(self) -> str:
        return "Infer"


Infer = _Infer()
"""As `in_specs`: arguments are cut as they are already."""


def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = Infer,
    mesh: Mesh | AbstractMesh | None = None,
    axis_names: Collection[Any] = frozenset(),
    check_vma: bool = True,
) -> Any:
    """`f` on the parts of its arguments that each device of `mesh` has.

    `in_specs` (a tree of PartitionSpecs, one for each argument or a part of one) says along which
    axes of the mesh arguments are cut, `out_specs` what the parts of the results make together.
    With `axis_names` only these axes of the mesh are `f`'s; along the others arrays are whole.
    `check_vma` keeps account of what varies along which axes: a result that is not the same for
    all devices can't be declared so, and what is the same is differentiated as one value.

    Raises ValueError where sizes do not divide or a result varies that must not, naming it.

    >>> import numpy as np, tetrax
    >>> mesh = tetrax.make_mesh((1,), ("i",))
    >>> total = lambda x: tetrax.lax.psum(x.sum(), "i")
    >>> P = tetrax.P
    >>> float(shard_map(total, mesh=mesh, in_specs=P("i"), out_specs=P())(np.arange(4.0)))
    6.0
    """
    if f is None:
        return functools.partial(
            shard_map,
            out_specs=out_specs,
            in_specs=in_specs,
            mesh=mesh,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    if not callable(f):
        raise TypeError(f"shard_map takes a function, got {f!r:.60} of type {type(f).__name__}")
    fun = f

    @documented(fun, "shard_map")
    @boundary
    def mapped(*args: Any) -> Any:
        over = _mesh(mesh)
        manual = frozenset(axis_names or over.axis_names)
        unknown = manual - set(over.axis_names)
        if unknown:
            raise ValueError(
                f"shard_map got axis_names {set(axis_names)}, but the mesh has the axes "
                f"{over.axis_names}"
            )
        return _call(fun, args, over, in_specs, out_specs, manual, check_vma)

    return mapped


def smap(
    f: Callable[..., Any] | None = None,
    /,
    *,
    in_axes: Any = Infer,
    out_axes: Any,
    axis_name: Any,
) -> Any:
    """`f` on parts of its arguments along one axis `axis_name` of the mesh in force.

    `in_axes` and `out_axes` are as in `vmap`, but the axis is cut, not removed: each device has a
    part of it. Raises TypeError for axes that are no integers.

    >>> import numpy as np, tetrax
    >>> with tetrax.set_mesh(tetrax.make_mesh((1,), ("i",))):
    ...     print(smap(lambda x: x + x, in_axes=0, out_axes=0, axis_name="i")(np.arange(2)))
    [0 2]
    """
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    if isinstance(axis_name, list | tuple):
        raise TypeError(f"smap takes one axis_name, got {axis_name}")
    given = () if in_axes is Infer else tree.leaves(in_axes)
    if not all(isinstance(axis, int) for axis in (*given, *tree.leaves(out_axes))):
        raise TypeError(
            f"smap in_axes and out_axes must be integers or None, got {in_axes} and {out_axes}"
        )

    def specs(axes: Any) -> Any:
        spec = lambda axis: (
            PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, axis_name)
        )
        return tree.map(spec, axes, is_leaf=lambda axis: axis is None)

    in_specs = Infer if in_axes is Infer else specs(in_axes)
    return shard_map(
        f, in_specs=in_specs, out_specs=specs(out_axes), axis_names=frozenset([axis_name])
    )


def _mesh(mesh: Mesh | AbstractMesh | None) -> Mesh:
    """The mesh of devices. Raises ValueError where there is none."""
    found = current_mesh() if mesh is None or isinstance(mesh, AbstractMesh) else mesh
    if found.empty:
        raise ValueError(
            "shard_map needs a mesh of devices: pass mesh=tetrax.make_mesh(...), or call it inside "
            "`with tetrax.set_mesh(mesh)`"
        )
    if isinstance(mesh, AbstractMesh) and mesh.shape_tuple != found.shape_tuple:
        raise ValueError(
            f"shard_map got the abstract mesh {mesh.shape_tuple}, but the mesh in force has "
            f"{found.shape_tuple}"
        )
    return found


def _call(
    fun: Callable[..., Any],
    args: tuple,
    mesh: Mesh,
    in_specs: Any,
    out_specs: Any,
    manual: frozenset[Any],
    check_vma: bool,
) -> Any:
    check_argument_leaves(fun, "shard_map", (args, {}))
    nested = manual & state.axis_sizes.keys()
    if nested:
        raise ValueError(
            f"shard_map over the axes {set(nested)} inside a function that is mapped over them "
            "already: name other axes in axis_names"
        )
    leaves, in_tree = tree.flatten((args, {}))
    leaves = [as_value(x) for x in leaves]
    specs = _input_specs(in_specs, args, leaves, mesh)
    paths = [argument_path(fun, path) for path, _ in tree.leaves_with_path((args, {}))]
    layouts, avals = [], []
    for leaf, spec, path in zip(leaves, specs, paths, strict=True):
        what = f"argument {path} of shard_map({function_name(fun)})"
        layout = checked_layout(spec, get_aval(leaf).ndim, mesh, manual, what)
        layouts.append(layout)
        avals.append(local_type(get_aval(leaf), layout, mesh, check_vma, what))
    return call_mapped(
        fun, leaves, in_tree, args, avals, layouts, out_specs, mesh, manual, check_vma
    )


def call_mapped(
    fun: Callable[..., Any],
    leaves: Sequence[Any],
    in_tree: Any,
    args: tuple,
    avals: Sequence[ShapedArray],
    layouts: Sequence[Layout],
    out_specs: Any,
    mesh: Mesh | AbstractMesh,
    manual: frozenset[Any],
    check_vma: bool,
) -> Any:
    """Trace `fun` on parts, and bind the operation; `out_specs` may be a function of results."""
    params = {"mesh": mesh, "manual": manual, "check_vma": check_vma}
    flat = flatten_function(fun, in_tree)

    def run(*parts: Any) -> tuple[list[Any], tuple[Any, tuple[Layout, ...]]]:
        outs, out_tree = flat(*parts)
        found = _output_layouts(fun, outs, out_tree, out_specs, mesh, manual, check_vma)
        return [_as_cut(x, layout) for x, layout in zip(outs, found, strict=True)], (
            out_tree,
            found,
        )

    with inside(params):
        closed, (out_tree, out_layouts) = stage(run, avals, debug_info(fun, args, {}))
    closed, consts = hoist_consts(closed)
    whole = [whole_layout(get_aval(x).ndim) for x in consts]
    outs = shard_map_p.bind(
        *consts,
        *leaves,
        jaxpr=closed,
        in_layouts=(*whole, *layouts),
        out_layouts=out_layouts,
        **params,
    )
    return tree.unflatten(out_tree, outs)


def _as_cut(x: Any, layout: Layout) -> Any:
    """A result with a type that varies along the axes it is declared to be cut over."""
    names = {name for names in layout for name in names} & state.tracked_axes
    missing = tuple(sorted(names - get_aval(x).vma, key=str))
    return pvary_p.bind(x, axes=missing) if missing else x


def _input_specs(in_specs: Any, args: tuple, leaves: Sequence[Any], mesh: Mesh) -> list[Any]:
    if in_specs is Infer:
        return [_spec_of(x, mesh) for x in leaves]
    if isinstance(in_specs, list):
        in_specs = tuple(in_specs)
    if isinstance(in_specs, tuple) and len(in_specs) != len(args):
        raise ValueError(
            f"shard_map in_specs must have one entry per argument, got {len(in_specs)} entries for "
            f"{len(args)} arguments: {in_specs}"
        )
    return tree.flatten_axes("shard_map in_specs", tree.structure(args), in_specs)


def _spec_of(x: Any, mesh: Mesh) -> PartitionSpec:
    sharding = getattr(x, "sharding", None)
    if isinstance(sharding, NamedSharding) and sharding.mesh == mesh:
        return sharding.spec
    return PartitionSpec()


def checked_layout(
    spec: Any, ndim: int, mesh: Mesh | AbstractMesh, manual: frozenset[Any], what: str
) -> Layout:
    """The layout that a specification asks for. Raises TypeError or ValueError, naming `what`."""
    if spec is None:
        spec = PartitionSpec()
    if isinstance(spec, NamedSharding):
        spec = spec.spec
    if not isinstance(spec, PartitionSpec):
        raise TypeError(f"shard_map specs must be PartitionSpecs, got {spec!r} for {what}")
    if len(spec) > ndim:
        raise ValueError(
            f"{what} has {ndim} axes, too few for its specification {spec} with {len(spec)} entries"
        )
    named = [axes_of(entry) for entry in spec]
    for name in (name for names in named for name in names):
        if name not in mesh.axis_names:
            raise ValueError(f"{what} is cut over {name!r}, but the mesh has {mesh.axis_names}")
        if name not in manual:
            raise ValueError(
                f"{what} is cut over {name!r}, which is not among axis_names {set(manual)}"
            )
    flat = [name for names in named for name in names]
    if len(set(flat)) != len(flat):
        raise ValueError(f"{what} is cut over an axis of the mesh twice: {spec}")
    return tuple(named) + ((),) * (ndim - len(named))


def local_type(
    aval: ShapedArray, layout: Layout, mesh: Mesh, check_vma: bool, what: str
) -> ShapedArray:
    """The type of a part. Raises ValueError where a size does not divide."""
    shape = []
    for axis, (size, names) in enumerate(zip(aval.shape, layout, strict=True)):
        count = ax.product([mesh.shape[name] for name in names])
        if size % count:
            raise ValueError(
                f"{what} has type {aval.str_short()}, and its axis {axis} of size {size} is cut "
                f"over {' x '.join(repr(n) for n in names)} with {count} devices, which does not "
                f"divide it. Pad the axis to {-(-size // count) * count} "
                "(tetrax.pad_to_devices), or choose another specification"
            )
        shape.append(size // count)
    names = frozenset(name for names in layout for name in names) if check_vma else frozenset()
    return aval.update(shape=tuple(shape), vma=aval.vma | names)


def _output_layouts(
    fun: Callable[..., Any],
    outs: Sequence[Any],
    out_tree: Any,
    out_specs: Any,
    mesh: Mesh | AbstractMesh,
    manual: frozenset[Any],
    check_vma: bool,
) -> tuple[Layout, ...]:
    if callable(out_specs):
        out_specs = out_specs(outs)
    if isinstance(out_specs, list) and out_tree.num_leaves != len(out_specs):
        out_specs = tuple(out_specs)
    specs = tree.flatten_axes("shard_map out_specs", out_tree, out_specs)
    paths = tree.leaves_with_path(tree.unflatten(out_tree, list(range(len(outs)))))
    layouts = []
    for out, spec, (path, _) in zip(outs, specs, paths, strict=True):
        where = tree.keystr(path)
        what = f"result{' ' + where if where else ''} of shard_map({function_name(fun)})"
        aval = get_aval(out)
        layout = checked_layout(spec, aval.ndim, mesh, manual, what)
        named = {name for names in layout for name in names}
        varies = (aval.vma & manual) - named
        if check_vma and varies:
            raise ValueError(
                f"the {what} has type {aval.str_short()}: it may differ along "
                f"{', '.join(map(repr, sorted(varies, key=str)))}, but its specification {spec} "
                "says it is the same for all devices there. Reduce it (lax.psum, lax.pmean ...), "
                "name the axis in out_specs, or pass check_vma=False if you know it is the same"
            )
        layouts.append(layout)
    return tuple(layouts)


__all__ = ["Infer", "call_mapped", "checked_layout", "local_type", "shard_map", "smap"]
