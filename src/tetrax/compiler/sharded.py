"""Programs on arrays that are cut over the devices of a mesh: partitioned, compiled, called."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from tetrax.compiler import kept
from tetrax.compiler.device_groups import DeviceAxes
from tetrax.compiler.devices_executable import compile_for_devices
from tetrax.compiler.meshes import meshes_in
from tetrax.compiler.partition.partition import Partitioned, partition
from tetrax.compiler.partition.report import Report
from tetrax.ir.control import Constraint, Inline, Manual
from tetrax.ir.layout import Layout, whole_layout
from tetrax.ir.program import ClosedProgram, Var
from tetrax.ir.types import ShapedArray
from tetrax.runtime.array import Array
from tetrax.runtime.devices import Device, devices
from tetrax.runtime.mesh import Mesh
from tetrax.runtime.native_call import MISMATCH, Runner
from tetrax.runtime.other_meshes import equivalent_on
from tetrax.runtime.partition_spec import PartitionSpec, axes_of
from tetrax.runtime.placement import device_put
from tetrax.runtime.sharded_array import ShardedArray, make_sharded
from tetrax.runtime.shardings import NamedSharding, SingleDeviceSharding


def layout_of_spec(spec: PartitionSpec, ndim: int) -> Layout:
    """The layout that a specification gives an array."""
    named = tuple(axes_of(entry) for entry in spec)
    return named + ((),) * (ndim - len(named))


def spec_of_layout(layout: Layout) -> PartitionSpec:
    """The specification of a layout, without trailing axes that are not cut."""
    entries: list[Any] = [
        None if not names else names[0] if len(names) == 1 else names for names in layout
    ]
    while entries and entries[-1] is None:
        entries.pop()
    return PartitionSpec(*entries)


@lru_cache(maxsize=4096)
def sharding_of_layout(mesh: Mesh, layout: Layout) -> NamedSharding | SingleDeviceSharding:
    """The sharding of a layout; the same object each time, so that comparing it is quick."""
    if mesh.axis_names == _ALONE:
        return SingleDeviceSharding(mesh.devices.flat[0])
    return NamedSharding(mesh, spec_of_layout(layout))


_ALONE = ("<one device>",)


@lru_cache(maxsize=1024)
def mesh_of_device(device: Device) -> Mesh:
    """The mesh of a device that arrays are committed to."""
    return Mesh([device], _ALONE)


def axes_of_mesh(mesh: Mesh) -> DeviceAxes:
    return DeviceAxes(tuple(mesh.axis_names), tuple(mesh.axis_sizes))


class ShardedExecutable:
    """A program for the devices of a mesh, which takes and gives arrays cut over it.

    `in_layouts` and `out_layouts` say how; a result for which there is None is cut as it comes.
    """

    def __init__(
        self,
        closed: ClosedProgram,
        mesh: Mesh,
        in_layouts: Sequence[Layout],
        out_layouts: Sequence[Layout | None],
        donated: Sequence[int] = (),
    ) -> None:
        axes = axes_of_mesh(mesh)
        partitioned = partition(closed, axes, in_layouts, out_layouts)
        self.closed = partitioned.program
        self.report = partitioned.report
        everywhere = list(mesh.devices.flat)
        local = set(mesh.local_devices)
        positions = [i for i, device in enumerate(everywhere) if device in local]
        self.devices = [everywhere[i] for i in positions]
        self.executable = compile_for_devices(
            partitioned.program,
            axes,
            positions,
            donated,
            [device.process_index for device in everywhere],
        )
        self.in_avals = list(closed.in_avals)
        self.out_avals = list(closed.out_avals)
        self.in_shardings = [sharding_of_layout(mesh, x) for x in in_layouts]
        self.out_shardings = [sharding_of_layout(mesh, x) for x in partitioned.out_layouts]

    def __call__(self, args: Sequence[Array]) -> list[Array]:
        """The results; arguments are brought into their layouts where they are not there."""
        columns = [
            (type(x) is ShardedArray and x._sharding is wanted and x._shards) or _parts(x, wanted)
            for x, wanted in zip(args, self.in_shardings, strict=True)
        ]
        return self._run(columns)

    def runner(self, single: bool) -> Runner:
        """Runs the program on arguments that are in their layouts; MISMATCH for any others."""
        wanted = list(zip(self.in_avals, self.in_shardings, strict=True))
        count, execute = len(wanted), self._run

        def run(*args: Any) -> Any:
            if len(args) != count:
                return MISMATCH
            columns = []
            for x, (aval, sharding) in zip(args, wanted, strict=True):
                if type(x) is not ShardedArray or x.aval is not aval or not x._shards:
                    return MISMATCH
                if x._sharding is not sharding and x._sharding != sharding:
                    return MISMATCH
                columns.append(x._shards)
            outs = execute(columns)
            return outs[0] if single else outs

        return run

    def _run(self, columns: Sequence[Sequence[Array]]) -> list[Array]:
        """The results, from the parts of each argument."""
        outs = self.executable.run(*[part for row in zip(*columns, strict=True) for part in row])
        count, at = len(self.out_avals), 0
        for device in self.devices:
            for _ in range(count):
                outs[at]._placed = device
                at += 1
        results = zip(self.out_avals, self.out_shardings, strict=True)
        return [
            make_sharded(aval, sharding, outs[i::count])
            for i, (aval, sharding) in enumerate(results)
        ]


def _parts(x: Array, sharding: NamedSharding | SingleDeviceSharding) -> Sequence[Array]:
    """The parts of an array that is to be cut so."""
    x.block_until_ready()  # raises where it is deleted
    if type(x) is ShardedArray and x._sharding == sharding:
        return x._shards
    placed = device_put(x, sharding)
    return placed._shards if type(placed) is ShardedArray else (placed,)


# -- which program for which arguments ---------------------------------------------------------

_executables: weakref.WeakKeyDictionary[ClosedProgram, dict[Any, ShardedExecutable]] = (
    weakref.WeakKeyDictionary()
)


Shardings = tuple[Any, ...]


def shardings_of(args: Sequence[Any]) -> Shardings:
    """How arguments are cut; None for those that lie on one device."""
    return tuple([x._sharding if type(x) is ShardedArray else None for x in args])


def sharded_executable(
    closed: ClosedProgram, shardings: Shardings, donated: tuple[int, ...] = ()
) -> ShardedExecutable:
    """The executable of a program for arguments that are cut so, compiled once.

    Those for which there is None are cut as the program uses them.
    """
    known = _executables.setdefault(closed, {})
    found = known.get((shardings, donated))
    if found is None:
        mesh = mesh_of(closed, shardings)
        layouts = argument_layouts(closed, shardings)
        outs: list[Layout | None] = [None] * len(closed.out_avals)
        found = ShardedExecutable(closed, mesh, layouts, outs, donated)
        known[shardings, donated] = found
        release = partial(_forget, weakref.ref(closed), (shardings, donated))
        found.executable.kept = kept.keep(found.executable.nbytes, release)
    elif found.executable.kept is not None:
        kept.use(found.executable.kept)
    return found


def _forget(program: weakref.ref[ClosedProgram], key: Any) -> bool:
    """Let go of an executable; it is compiled again when it is asked for."""
    closed = program()
    if closed is not None:
        _executables.get(closed, {}).pop(key, None)
    return True


def partitioned(closed: ClosedProgram, shardings: Shardings) -> Partitioned:
    """The program of one device for arguments that are cut so; nothing is compiled."""
    axes = axes_of_mesh(mesh_of(closed, shardings))
    layouts = argument_layouts(closed, shardings)
    return partition(closed, axes, layouts, [None] * len(closed.out_avals))


def argument_layouts(closed: ClosedProgram, shardings: Shardings) -> list[Layout]:
    """How the arguments of a program are cut."""
    uses = _layouts_of_uses(closed)
    mesh = _own_mesh(closed, shardings)
    triples = zip(shardings, closed.in_avals, closed.program.invars, strict=True)
    return [
        _layout_of_argument(sharding, aval, mesh) or uses.get(var) or whole_layout(aval.ndim)
        for sharding, aval, var in triples
    ]


def _layout_of_argument(sharding: Any, aval: ShapedArray, mesh: Mesh) -> Layout | None:
    """How an argument is cut; None where the axes of the mesh cannot say it."""
    if not isinstance(sharding, NamedSharding):
        return None
    sharding.shard_shape(aval.shape)  # raises where a size is not divided
    if sharding.mesh is not mesh:
        sharding = equivalent_on(sharding, mesh, aval.ndim)
        if sharding is None:
            return None
    return layout_of_spec(sharding.spec, aval.ndim)


def mesh_of(closed: ClosedProgram, shardings: Sequence[Any]) -> Mesh:
    """The mesh that a program with such arguments runs on. Raises ValueError for other devices."""
    own = _own_mesh(closed, shardings)
    inner = [mesh for mesh in meshes_in(closed) if not isinstance(mesh, Mesh)]
    return _with_inner_axes(own, [m for m in inner if not set(m.axis_names) <= {*own.axis_names}])


def _own_mesh(closed: ClosedProgram, shardings: Sequence[Any]) -> Mesh:
    """The mesh that the program speaks of, or that of the first argument that lies on one.

    Arguments may lie on other meshes over the same devices. Raises ValueError for other devices.
    """
    named = [mesh for mesh in meshes_in(closed) if isinstance(mesh, Mesh)]
    given = [sharding.mesh for sharding in shardings if isinstance(sharding, NamedSharding)]
    given += [mesh_of_device(s.device) for s in shardings if isinstance(s, SingleDeviceSharding)]
    first, *others = [*named, *given] or list(meshes_in(closed))
    for other in others:
        if other is not first and (other in named or other.device_tuple != first.device_tuple):
            raise ValueError(
                "Received incompatible devices for jitted computation: arrays and shard_map must "
                f"be on the same devices, but there are devices {first.device_ids.tolist()} and "
                f"{other.device_ids.tolist()} (of {first} and {other}). Bring the arrays together "
                "by tetrax.device_put"
            )
    return first


def _with_inner_axes(mesh: Mesh, inner: Sequence[Any]) -> Mesh:
    """The mesh with the axes of maps inside maps, over more devices. Raises ValueError where there
    are too few.
    """
    extra = {name: size for held in inner for name, size in held.shape_tuple}
    if not extra:
        return mesh
    sizes = (*mesh.axis_sizes, *extra.values())
    need, there = math.prod(sizes), devices()
    if need > len(there):
        shown = " x ".join(map(str, sizes))
        raise ValueError(
            f"nested maps over {shown} = {need} devices, but there are only {len(there)} devices"
        )
    # The devices of the outer map first, so that its arrays stay where they are.
    own = list(mesh.devices.flat)
    rest = [device for device in there if device not in set(own)]
    grid = np.array([*own, *rest][:need], object).reshape(need // len(own), len(own))
    return Mesh(grid.T.reshape(sizes), (*mesh.axis_names, *extra))


def _layouts_of_uses(closed: ClosedProgram) -> dict[Var, Layout]:
    """How a program wants its operands cut, as far as a call or `shard_map` says at once."""
    found: dict[Var, Layout] = {}
    for eqn in closed.eqns:
        structure = eqn.primitive.structure
        if structure is None:
            continue
        described = structure([atom.aval for atom in eqn.invars], **eqn.params)
        if isinstance(described, Manual):
            layouts: Sequence[Layout | None] = described.in_layouts
        elif isinstance(described, Constraint):
            layouts = [tuple(names or () for names in described.layout)]
        elif isinstance(described, Inline):
            inner = _layouts_of_uses(described.program)
            layouts = [inner.get(var) for var in described.program.program.invars]
        else:
            continue
        for atom, layout in zip(eqn.invars, layouts, strict=True):
            if isinstance(atom, Var) and layout is not None:
                found.setdefault(atom, layout)
    return found


__all__ = ["Report", "ShardedExecutable", "partitioned", "sharded_executable", "shardings_of"]
