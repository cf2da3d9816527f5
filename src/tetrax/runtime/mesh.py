"""`Mesh`: devices in a grid with named axes, and `AbstractMesh`: the grid without the devices.

Meshes that are equal are one object, so they compare and hash by identity.
"""

from __future__ import annotations

import contextlib
import enum
import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast
from weakref import WeakValueDictionary

import numpy as np
from tetrax.config import Scope, make_user_context
from tetrax.runtime import devices as _devices
from tetrax.runtime.devices import Device


class AxisType(enum.Enum):
    """Who decides how arrays are cut along an axis: the compiler, the types, or the user's code."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


class _Grid:
    """What both kinds of mesh have: names, sizes and types of axes."""

    axis_names: tuple[Any, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]
    size: int
    sizes: Mapping[Any, int]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot assign to field {name!r}: a mesh is immutable")

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict) -> Any:
        return self

    @property
    def shape(self) -> OrderedDict[Any, int]:
        """The size of each axis, by name."""
        return OrderedDict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    def _axes_of(self, kind: AxisType) -> tuple[Any, ...]:
        pairs = zip(self.axis_names, self.axis_types, strict=True)
        return tuple(name for name, found in pairs if found is kind)

    @cached_property
    def auto_axes(self) -> tuple[Any, ...]:
        return self._axes_of(AxisType.Auto)

    @cached_property
    def explicit_axes(self) -> tuple[Any, ...]:
        return self._axes_of(AxisType.Explicit)

    @cached_property
    def manual_axes(self) -> tuple[Any, ...]:
        return self._axes_of(AxisType.Manual)

    def _all_axes_are(self, kind: AxisType) -> bool:
        return bool(self.axis_types) and all(found is kind for found in self.axis_types)

    @property
    def are_all_axes_auto(self) -> bool:
        return self._all_axes_are(AxisType.Auto)

    @property
    def are_all_axes_explicit(self) -> bool:
        return self._all_axes_are(AxisType.Explicit)

    @property
    def are_all_axes_manual(self) -> bool:
        return self._all_axes_are(AxisType.Manual)

    def _text(self) -> str:
        if not self.axis_names:
            return f"(), axis_types={self.axis_types}"
        axes = ", ".join(f"{name!r}: {size}" for name, size in self.shape_tuple)
        return f"{axes}, axis_types={self.axis_types}"


_lock = threading.Lock()
_meshes: WeakValueDictionary[Any, Mesh] = WeakValueDictionary()
_abstract_meshes: WeakValueDictionary[Any, AbstractMesh] = WeakValueDictionary()


class Mesh(_Grid, contextlib.ContextDecorator):
    """Devices in an n-dimensional grid whose axes have names.

    `devices` is an array (or nested list) of devices with one dimension per name. Also a context
    manager: inside, `PartitionSpec`s refer to this mesh.
    """

    devices: np.ndarray
    # The same in row-major order.
    device_tuple: tuple[Device, ...]

    def __new__(
        cls,
        devices: np.ndarray | Sequence[Device],
        axis_names: Any,
        axis_types: Any = None,
    ) -> Mesh:
        grid = devices if isinstance(devices, np.ndarray) else np.array(devices, dtype=object)
        names = _axis_names(axis_names)
        if grid.ndim != len(names):
            raise ValueError(
                f"Mesh requires the ndim of its first argument (`devices`) to equal the length of "
                f"its second argument (`axis_names`), but got devices.ndim == {grid.ndim} and "
                f"len(axis_names) == {len(names)}."
            )
        types = _axis_types("Mesh", names, axis_types)
        flat = tuple(grid.flat)
        key = flat, grid.shape, names, types
        with _lock:
            found = _meshes.get(key)
            if found is None:
                found = _meshes[key] = cls._make(grid, flat, names, types)
        return found

    @classmethod
    def _make(cls, grid: np.ndarray, flat: tuple, names: tuple, types: tuple) -> Mesh:
        made = object.__new__(cls)
        grid = grid.copy()
        grid.flags.writeable = False
        made.__dict__.update(
            devices=grid,
            device_tuple=flat if grid.ndim else (),
            axis_names=names,
            axis_sizes=grid.shape,
            axis_types=types,
            size=grid.size if grid.ndim else 0,
            sizes=dict(zip(names, grid.shape, strict=True)),
        )
        return made

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    def __enter__(self) -> Mesh:
        context.entered.append(context.physical)
        context.physical = self
        context.changed()
        return self

    def __exit__(self, *exception: object) -> None:
        context.physical = context.entered.pop()
        context.changed()

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """The mesh with some of its parts replaced."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    @property
    def empty(self) -> bool:
        return self.size == 0

    @property
    def is_scalar(self) -> bool:
        return not self.axis_names

    @cached_property
    def is_multi_process(self) -> bool:
        return len(self.local_devices) != len(self.device_tuple)

    @cached_property
    def local_devices(self) -> list[Device]:
        return [device for device in self.device_tuple if _devices.is_local(device)]

    @property
    def device_ids(self) -> np.ndarray:
        return np.array([device.id for device in self.device_tuple]).reshape(self.devices.shape)

    @cached_property
    def local_mesh(self) -> Mesh:
        """The part of the mesh that lies in this process. Raises ValueError if it is no grid."""
        if not self.is_multi_process:
            return self
        local = np.vectorize(_devices.is_local, otypes=[bool])(self.devices)
        used = [np.unique(positions) for positions in local.nonzero()]
        box = np.ix_(*used)
        if not local.any() or not local[box].all():
            raise ValueError(
                "The devices of this process do not form a grid within the mesh, so there is no "
                f"local mesh. Process of each device: "
                f"{[device.process_index for device in self.device_tuple]} in {self.axis_sizes}"
            )
        return Mesh(self.devices[box], self.axis_names, self.axis_types)

    @cached_property
    def abstract_mesh(self) -> AbstractMesh:
        first = self.device_tuple[0] if self.device_tuple else None
        kind = None if first is None else AbstractDevice(first.device_kind, None, first.platform)
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types, abstract_device=kind)

    def __str__(self) -> str:
        return f"Mesh({self._text()})"

    def __repr__(self) -> str:
        if self.empty:
            return "Mesh(axis_sizes=(), axis_names=())"
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names!r}, "
            f"axis_types={self.axis_types})"
        )


class AbstractDevice:
    """What is known of the devices of an `AbstractMesh`."""

    __slots__ = ("device_kind", "num_cores", "platform")

    def __init__(
        self, device_kind: str, num_cores: int | None = None, platform: str | None = None
    ) -> None:
        self.device_kind = device_kind
        self.num_cores = num_cores
        self.platform = platform

    def _key(self) -> tuple:
        return (self.device_kind, self.num_cores, self.platform)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractDevice) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def text(self) -> str:
        return (
            f"device_kind={self.device_kind}, num_cores={self.num_cores}, platform={self.platform}"
        )

    def __repr__(self) -> str:
        return f"AbstractDevice({self.text()})"


class AbstractMesh(_Grid):
    """Names, sizes and types of mesh axes, for tracing where the devices do not matter.

    >>> AbstractMesh((2, 4), ("x", "y"))
    AbstractMesh('x': 2, 'y': 4, axis_types=(Auto, Auto))
    """

    abstract_device: AbstractDevice | None

    def __new__(
        cls,
        axis_sizes: Sequence[int],
        axis_names: Any,
        axis_types: Any = None,
        *,
        abstract_device: AbstractDevice | None = None,
    ) -> AbstractMesh:
        names, sizes = _axis_names(axis_names), tuple(axis_sizes)
        if len(names) != len(sizes):
            raise ValueError(
                f"AbstractMesh needs one name per axis, but got sizes {sizes} and names {names}"
            )
        types = _axis_types("AbstractMesh", names, axis_types)
        key = sizes, names, types, abstract_device
        with _lock:
            found = _abstract_meshes.get(key)
            if found is None:
                found = _abstract_meshes[key] = object.__new__(cls)
                found.__dict__.update(
                    axis_sizes=sizes,
                    axis_names=names,
                    axis_types=types,
                    abstract_device=abstract_device,
                    size=math.prod(sizes) if sizes else 0,
                    sizes=dict(zip(names, sizes, strict=True)),
                )
        return found

    def __reduce__(self) -> Any:
        return _abstract, (self.axis_sizes, self.axis_names, self.axis_types, self.abstract_device)

    def update(
        self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None, **kwargs: Any
    ) -> AbstractMesh:
        """The mesh with some of its parts replaced."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            abstract_device=kwargs.pop("abstract_device", self.abstract_device),
            **kwargs,
        )

    def update_axis_types(self, name_to_type: Mapping[Any, AxisType]) -> AbstractMesh:
        types = zip(self.axis_names, self.axis_types, strict=True)
        return self.update(axis_types=tuple(name_to_type.get(name, old) for name, old in types))

    @property
    def empty(self) -> bool:
        return self.size == 0

    @property
    def abstract_mesh(self) -> AbstractMesh:
        return self

    def __getattr__(self, name: str) -> Any:
        if name in _CONCRETE_ONLY:
            raise ValueError(f"AbstractMesh does not implement {name}: it has no devices")
        raise AttributeError(f"'AbstractMesh' object has no attribute {name!r}")

    def __enter__(self) -> Any:
        raise ValueError(
            "AbstractMesh does not implement __enter__. Use tetrax.sharding.use_abstract_mesh(mesh)"
        )

    def __exit__(self, *exception: object) -> None:
        return None

    def __repr__(self) -> str:
        known = f", {self.abstract_device.text()}" if self.abstract_device else ""
        return f"AbstractMesh({self._text()}{known})"

    __str__ = __repr__


_CONCRETE_ONLY = ("devices", "device_ids", "is_multi_process", "local_devices", "local_mesh")


def _abstract(sizes: tuple, names: tuple, types: tuple, device: Any) -> AbstractMesh:
    return AbstractMesh(sizes, names, types, abstract_device=device)


def _axis_names(axis_names: Any) -> tuple[Any, ...]:
    # A name may be anything hashable, but a string is one name and not several letters.
    one = isinstance(axis_names, str) or not isinstance(axis_names, Iterable)
    names = (axis_names,) if one else tuple(axis_names)
    if None in names:
        raise ValueError(f"Mesh axis names cannot be None. Got: {names}")
    return names


def _axis_types(owner: str, names: tuple, axis_types: Any) -> tuple[AxisType, ...]:
    if axis_types is None:
        return (AxisType.Auto,) * len(names)
    types = (axis_types,) if isinstance(axis_types, AxisType | str) else tuple(axis_types)
    if not all(isinstance(kind, AxisType) for kind in types):
        raise TypeError(
            f"axis_types passed to {owner} must be of type `tetrax.sharding.AxisType`. Got {types} "
            f"of type {tuple(map(type, types))}"
        )
    if len(types) != len(names):
        raise ValueError(
            f"Number of axis names should match the number of axis_types. Got axis_names={names} "
            f"and axis_types={types}"
        )
    return cast("tuple[AxisType, ...]", types)


_meshes_in_force = make_user_context()


class _Context(threading.local):
    """The meshes in force in this thread."""

    def __init__(self) -> None:
        # By `with mesh:`, and the meshes outside the `with` blocks that are open.
        self.physical: Mesh = EMPTY_MESH
        self.entered: list[Mesh] = []
        # By `set_mesh`, and by it or `use_abstract_mesh`.
        self.concrete: Mesh = EMPTY_MESH
        self.abstract: AbstractMesh = EMPTY_ABSTRACT_MESH
        self._scope: Scope | None = None

    def changed(self) -> None:
        """Let functions that were traced with other meshes in force be traced again."""
        if self._scope is not None:
            self._scope.__exit__()
            self._scope = None
        meshes = (self.physical, self.concrete, self.abstract)
        if not all(mesh.empty for mesh in meshes):
            self._scope = _meshes_in_force(meshes)
            self._scope.__enter__()


EMPTY_MESH = Mesh(np.empty((), dtype=object), ())
EMPTY_ABSTRACT_MESH = AbstractMesh((), ())
context = _Context()
