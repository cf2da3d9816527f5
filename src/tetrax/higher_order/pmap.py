"""`pmap`: a function on slices of arrays, each slice on a device of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from tetrax import tree
from tetrax.higher_order.jit import Jitted, Options, settled_options
from tetrax.higher_order.shard_map import call_mapped
from tetrax.ir.layout import Layout
from tetrax.ops import axes as ax
from tetrax.ops.shape import expand_dims, squeeze
from tetrax.runtime.array import as_value
from tetrax.runtime.devices import Device, local_devices
from tetrax.runtime.mesh import AbstractMesh, Mesh
from tetrax.runtime.partition_spec import PartitionSpec
from tetrax.tracing.trace import state
from tetrax.tracing.value import get_aval
from tetrax.transforms.flat import (
    argument_path,
    check_argument_leaves,
    flatten_function,
    function_name,
    with_fixed,
)


class _Unnamed:
    """The name of a mapped axis that has none, at a depth of nesting."""

    def __init__(self, depth: int) -> None:
        self.depth = depth

    def __repr__(self) -> str:
        return f"<unnamed axis {self.depth}>"


_unnamed = functools.lru_cache(maxsize=None)(_Unnamed)


def pmap(
    fun: Callable[..., Any],
    axis_name: Hashable | None = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Device] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Any:
    """`fun` on every slice of its arguments along their mapped axes, each on its own device.

    `in_axes` and `out_axes` are as in `vmap`; a mapped axis must not be longer than there are
    devices. Collectives (`lax.psum` ...) over `axis_name` work across them. Results lie on the
    devices, as one array with the mapped axis. Raises ValueError where sizes differ, or where there
    are too few devices, naming the argument.

    >>> import numpy as np
    >>> pmap(lambda x: x + x)(np.array([1.0]))
    Array([2.], dtype=float32)
    """
    if not callable(fun):
        raise TypeError(f"pmap takes a function, got {fun!r:.60} of type {type(fun).__name__}")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    mapped = _Mapped(fun, axis_name, in_axes, out_axes, devices, backend, axis_size)
    functools.update_wrapper(mapped, fun, updated=())
    options = settled_options(mapped, static_broadcasted_argnums, donate_argnums)
    mapped.static = options.static_argnums
    return Pmapped(mapped, options)


class Pmapped(Jitted):
    """A function made by `pmap`; call it like the original."""

    def __init__(self, fun: Callable[..., Any], options: Options) -> None:
        super().__init__(fun, options)

    def __repr__(self) -> str:
        return f"<pmapped function {self.__name__}>"


def _others(values: tuple, positions: set[int]) -> tuple:
    """The values at other positions."""
    return tuple(x for i, x in enumerate(values) if i not in positions)


class _Mapped:
    """The function of whole arrays that `pmap` makes."""

    def __init__(
        self,
        fun: Callable[..., Any],
        axis_name: Hashable | None,
        in_axes: Any,
        out_axes: Any,
        devices: Sequence[Device] | None,
        backend: str | None,
        axis_size: int | None,
    ) -> None:
        self.fun = fun
        self.axis_name = axis_name
        self.in_axes = in_axes
        self.out_axes = out_axes
        self.devices = None if devices is None else tuple(devices)
        self.backend = backend
        self.axis_size = axis_size
        # The positions of arguments that are the same Python value for all devices.
        self.static: tuple[int, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fun, count = self.fun, len(args)
        static = {n % count for n in self.static if -count <= n < count}
        if static:
            return self._with_fixed(args, static)(*_others(args, static), **kwargs)
        check_argument_leaves(fun, "pmap", (args, kwargs))
        leaves, in_tree = tree.flatten((args, kwargs))
        leaves = [as_value(x) for x in leaves]
        paths = [argument_path(fun, path) for path, _ in tree.leaves_with_path((args, kwargs))]
        dims = self._input_dims(args, kwargs, leaves, paths)
        size = self._size(leaves, dims, paths)
        name = self.axis_name if self.axis_name is not None else _unnamed(len(state.axis_sizes))
        mesh = self._mesh(name, size, paths, dims)
        return self._run(args, leaves, in_tree, dims, mesh, name)

    def _with_fixed(self, args: tuple, static: set[int]) -> _Mapped:
        """The same for the other arguments alone."""
        positions = [i for i in range(len(args)) if i not in static]
        axes = _others(self.in_axes, static) if isinstance(self.in_axes, tuple) else self.in_axes
        return _Mapped(
            with_fixed(self.fun, args, positions),
            self.axis_name,
            axes,
            self.out_axes,
            self.devices,
            self.backend,
            self.axis_size,
        )

    def _run(
        self,
        args: tuple,
        leaves: Sequence[Any],
        in_tree: Any,
        dims: Sequence[int | None],
        mesh: Mesh | AbstractMesh,
        name: Any,
    ) -> Any:
        flat = flatten_function(self.fun, in_tree)
        trees: list[Any] = []

        def part(*parts: Any) -> Any:
            slices = [
                x if dim is None else squeeze(x, (dim,)) for x, dim in zip(parts, dims, strict=True)
            ]
            outs, out_tree = flat(*slices)
            wanted = self._output_dims(outs, out_tree)
            trees.append((out_tree, wanted))
            return [
                x if dim is None else expand_dims(x, (dim,))
                for x, dim in zip(outs, wanted, strict=True)
            ]

        layouts: list[Layout] = []
        avals = []
        for x, dim in zip(leaves, dims, strict=True):
            aval = get_aval(x)
            cut = [(name,) if axis == dim else () for axis in range(aval.ndim)]
            layouts.append(tuple(cut))
            avals.append(aval if dim is None else aval.update(shape=ax.replace(aval.shape, dim, 1)))
        part.__name__ = function_name(self.fun)
        specs = lambda outs: [
            PartitionSpec() if dim is None else PartitionSpec(*[None] * dim, name)
            for dim in trees[-1][1]
        ]
        outs = call_mapped(
            part,
            leaves,
            tree.structure((tuple(leaves), {})),
            tuple(leaves),
            avals,
            layouts,
            specs,
            mesh,
            frozenset([name]),
            check_vma=False,
        )
        return tree.unflatten(trees[-1][0], outs)

    # -- axes ----------------------------------------------------------------------------------

    def _input_dims(
        self, args: tuple, kwargs: dict, leaves: Sequence[Any], paths: Sequence[str]
    ) -> list[int | None]:
        axes = self.in_axes if isinstance(self.in_axes, tuple) else (self.in_axes,) * len(args)
        if len(axes) != len(args):
            raise ValueError(
                f"pmap in_axes must have one entry per positional argument, got {len(axes)} for "
                f"{len(args)} arguments: {self.in_axes}"
            )
        found = tree.flatten_axes("pmap in_axes", tree.structure((args, kwargs)), (axes, 0))
        dims = []
        for x, dim, path in zip(leaves, found, paths, strict=True):
            ndim = get_aval(x).ndim
            if dim is not None and not -ndim <= dim < ndim:
                raise ValueError(
                    f"pmap maps axis {dim} of argument {path} of {function_name(self.fun)}, which "
                    f"has type {get_aval(x).str_short()} and {ndim} axes"
                )
            dims.append(None if dim is None else dim % ndim)
        return dims

    def _size(self, leaves: Sequence[Any], dims: Sequence[int | None], paths: Sequence[str]) -> int:
        sizes = {
            path: get_aval(x).shape[dim]
            for x, dim, path in zip(leaves, dims, paths, strict=True)
            if dim is not None
        }
        found = set(sizes.values())
        if self.axis_size is not None:
            found.add(self.axis_size)
        if not found:
            raise ValueError(
                "pmap requires at least one argument with a mapped axis, or axis_size (pmap of "
                f"{function_name(self.fun)})"
            )
        if len(found) > 1:
            shown = ", ".join(f"{path} has {size}" for path, size in sizes.items())
            given = "" if self.axis_size is None else f"; axis_size={self.axis_size}"
            raise ValueError(
                f"pmap got inconsistent sizes for array axes to be mapped (pmap of "
                f"{function_name(self.fun)}): {shown}{given}"
            )
        return found.pop()

    def _mesh(
        self, name: Any, size: int, paths: Sequence[str], dims: Sequence[int | None]
    ) -> Mesh | AbstractMesh:
        """The devices. Raises ValueError where there are too few of them."""
        if state.axis_sizes.get(name) is not None:
            raise ValueError(f"pmap over {name!r} inside a function mapped over it already")
        if state.device_axes:
            return AbstractMesh((size,), (name,))
        devices = self.devices
        if devices is None:
            devices = tuple(local_devices(backend=self.backend))
        elif len(devices) != size:
            raise ValueError(
                f"pmap got {len(devices)} devices for a mapped axis of size {size}: "
                f"{', '.join(map(str, devices))}"
            )
        if size > len(devices):
            mapped = [path for path, dim in zip(paths, dims, strict=True) if dim is not None]
            where = f" (of {', '.join(mapped[:3])})" if mapped else ""
            whole = -(-size // len(devices)) * len(devices)
            raise ValueError(
                f"pmap of {function_name(self.fun)} maps an axis of size {size}{where}, but there "
                f"are only {len(devices)} devices. Pad the axis to {whole} and give each device "
                f"{whole // len(devices)} rows: tetrax.pad_to_devices(x, split=True) does that and "
                "gives a mask; or map the rest by vmap; or set TETRAX_NUM_CPU_DEVICES"
            )
        return Mesh(list(devices[:size]), (name,))

    def _output_dims(self, outs: Sequence[Any], out_tree: Any) -> list[int | None]:
        axes = tree.flatten_axes("pmap out_axes", out_tree, self.out_axes)
        dims = []
        for x, dim in zip(outs, axes, strict=True):
            ndim = get_aval(x).ndim + 1
            if dim is not None and not -ndim <= dim < ndim:
                raise ValueError(
                    f"pmap out_axes={dim} is out of range for a result with {ndim} axes"
                )
            dims.append(None if dim is None else dim % ndim)
        return dims
