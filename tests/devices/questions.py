"""What both JAX and Tetrax are asked about meshes and shardings of eight devices.

`oracle.json` holds JAX's answers. To write it anew: `python -m tests.devices.questions`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

ORACLE = Path(__file__).with_name("oracle.json")

# Ids of the devices, and names of the axes.
MESHES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "8": (list(range(8)), ("x",)),
    "2x4": (np.arange(8).reshape(2, 4).tolist(), ("x", "y")),
    "2x2x2": (np.arange(8).reshape(2, 2, 2).tolist(), ("x", "y", "z")),
    "4 of 8": ([1, 3, 5, 7], ("x",)),
    "turned": (np.arange(8)[::-1].reshape(4, 2).tolist(), ("x", "y")),
    "1x8": ([list(range(8))], ("x", "y")),
    "one": ([5], ("x",)),
}
SPECS: dict[int, tuple[str, ...]] = {
    1: ("P()", "P(None)", "P('x')", "P(None, 'x')", "P('x', None)", "P(('x',))"),
    2: ("P('y')", "P('x', 'y')", "P('y', 'x')", "P(('x', 'y'))", "P(None, ('y', 'x'))"),
    3: ("P(('x', 'z'), 'y')", "P('z', None, 'y')", "P(P.UNCONSTRAINED, ('z', 'y', 'x'))"),
}
SHAPES = ((), (8,), (6,), (8, 4), (3, 8), (16, 8, 4), (0, 8), (1, 1))
ENTRIES = (
    *("P()", "P(None)", "P('x')", "P('x', None)", "P(('x',))", "P(['x', 'y'])", "P((), 'x')"),
    *("P(None, ('x', 'y'))", "P(P.UNCONSTRAINED)", "P('x', unreduced={'y'})", "P('x') + P('y')"),
    *("('y',) + P('x')", "P('x') + (None,)", "P(3)", "P('x').update(reduced={'z'})"),
)
ERRORS = (
    "Mesh(np.array(d), ('x', 'y'))",
    "Mesh(d, (None,))",
    "Mesh(d, 'x', axis_types=('Auto',))",
    "Mesh(d, 'x', axis_types=(AxisType.Auto,) * 2)",
    "AbstractMesh((2,), ('x',)).devices",
    "make_mesh((4, 4), ('x', 'y'))",
    "make_mesh((2, 2), ('x',))",
    "make_mesh((3,), ('x',), devices=d[:2])",
    "create_device_mesh((2, 2))",
    "create_hybrid_device_mesh((2, 2), (2, 1), process_is_granule=True)",
    "P(('x', ('y',)))",
    "P(unreduced='x')",
    "P(unreduced={None})",
    "P('x', unreduced={'x'})",
    "NamedSharding(Mesh(d, 'x'), P('z'))",
    "NamedSharding(Mesh(d, 'x'), P('x', unreduced={'q'}))",
    "NamedSharding(Mesh(d, 'x'), P('x'), memory_kind='attic')",
    "NamedSharding(AbstractMesh((2,), ('x',)), P('x')).device_set",
    "NamedSharding(AbstractMesh((2,), ('x',)), P('x')).devices_indices_map((8,))",
    "device_put(np.arange(8), NamedSharding(AbstractMesh((2,), ('x',)), P('x')))",
    "set_mesh(3)",
    "device_put(np.arange(6), NamedSharding(Mesh(d, 'x'), P('x')))",
    "device_put(np.arange(8), NamedSharding(Mesh(d, 'x'), P('x', None)))",
    "device_put(np.arange(8), Mesh(d, 'x'))",
    "device_put(np.arange(8), P('x'))",
    "device_put(np.arange(8), {'a': d[0]})",
    "device_put(np.arange(8), d[1], donate=True, may_alias=True)",
    "from_callback((8,), NamedSharding(Mesh(d, 'x'), P('x')), lambda i: np.arange(8))",
    "from_callback((8,), P('x'), lambda i: np.arange(8))",
    "from_parts((8,), NamedSharding(Mesh(d, 'x'), P('x')), [device_put(np.arange(1), d[0])])",
    "from_parts((8,), NamedSharding(Mesh(d, 'x'), P('x')), [device_put(np.arange(1), d[0])] * 8)",
    "from_parts((8,), NamedSharding(Mesh(d, 'x'), P('x')), [np.arange(1)] * 8)",
    "from_parts((8,), NamedSharding(Mesh(d, 'x'), P('x')), [])",
    "from_local(NamedSharding(Mesh(d, 'x'), P('x')), np.arange(8), (16,))",
    "local_devices(process_index=3)",
    "devices('gpu')",
)
VALUES = (
    *("Mesh(d, 'x')", "str(Mesh(d, 'x'))", "Mesh(d, 'x').shape", "Mesh(d, 'x').local_devices"),
    *("Mesh(d, 'x').abstract_mesh", "make_mesh((2, 4), ('x', 'y'))", "AxisType.Explicit"),
    *("make_mesh((2, 2), ('x', 'y')).device_ids.tolist()", "Mesh(d, 'x') is Mesh(d, ('x',))"),
    *("AbstractMesh((2, 4), ('x', 'y'), (AxisType.Auto, AxisType.Manual))", "d[3]", "str(d[3])"),
    *(
        "AbstractMesh((2,), ('x',)) == AbstractMesh((2,), ('x',))",
        "AbstractMesh((2,), ('x',)).size",
    ),
    *("get_mesh()", "get_abstract_mesh()", "Mesh(d, 'x').update(axis_names=('a',))"),
    *("Mesh(d, 'x').is_multi_process", "Mesh(d, 'x').empty", "Mesh(d, 'x').auto_axes"),
    *("create_device_mesh((4, 2)).tolist()", "process_index()", "process_count()"),
    *("[s.index for s in device_put(np.arange(8), d[2]).addressable_shards]", "device_count()"),
    *("device_put(np.arange(8), d[2]).sharding", "SingleDeviceSharding(d[1]).num_devices"),
    *("device_put(np.arange(8), NamedSharding(Mesh(d, 'x'), P('x')))", "local_device_count()"),
    *("device_put(np.arange(8.), NamedSharding(Mesh(d, 'x'), P('x'))).addressable_shards",),
    *("device_put(3.0, NamedSharding(Mesh(d, 'x'), P()))", "list(AxisType)", "process_indices()"),
    *("device_put(np.zeros((0, 8)), NamedSharding(Mesh(d, 'x'), P(None, 'x')))",),
    *("device_put(np.ones((8, 2), bool), NamedSharding(Mesh(d, 'x'), P('x'))).addressable_shards",),
    *("device_put(np.arange(8), NamedSharding(Mesh(d, 'x'), P('x'))).on_device_size_in_bytes()",),
    *("device_put(np.arange(8), NamedSharding(Mesh(d, 'x'), P())).on_device_size_in_bytes()",),
    *("NamedSharding(Mesh(d, 'x'), P('x')).with_memory_kind('pinned_host')",),
    *("NamedSharding(AbstractMesh((2,), ('x',)), P('x')).shard_shape((8, 3))", "get_mesh().shape"),
    *(
        "NamedSharding(AbstractMesh((2,), ('x',)), P('x')).is_fully_replicated",
        "d[3].process_index",
    ),
    *("NamedSharding(AbstractMesh((2,), ('x',)), P('x'))", "d[0].platform, d[0].device_kind"),
)
PICTURES = (
    *("(8,), P('x')", "(8,), P(('x', 'y'))", "(8,), P()", "(8, 8), P('x', 'y')", "(8, 8), P('y')"),
    *("(8, 8), P()", "(2, 4), P('x')", "(8, 8), P(None, 'y')", "(8, 8), P(None, ('x', 'y'))"),
)


def all_answers(names: SimpleNamespace) -> Iterator[tuple[str, str]]:
    """Every question with the answer of a library."""
    scope = vars(names)
    yield from _of_shardings(scope)
    for kind, sources in (("value", VALUES), ("spec", ENTRIES)):
        for source in sources:
            yield f"{kind} {source}", repr(eval(source, scope))
    for first, second in itertools.combinations(ENTRIES, 2):
        yield f"same {first} / {second}", str(eval(f"{first} == {second}", scope))
    for source in ERRORS:
        yield f"error {source}", _error(lambda source=source: eval(source, scope))
    mesh = _mesh(scope, "2x4")
    for source in PICTURES:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            shape, spec = eval(source, scope)
            sharding = names.NamedSharding(mesh, spec)
            names.visualize_sharding(shape, sharding, use_color=False)
        yield f"picture {source}", "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


def _mesh(scope: dict, name: str) -> Any:
    ids, names = MESHES[name]
    devices = np.array([scope["d"][i] for i in np.ravel(ids)], object)
    return scope["Mesh"](devices.reshape(np.shape(ids)), names)


def _error(ask: Callable[[], Any]) -> str:
    """The built-in class of the error."""
    try:
        ask()
    except Exception as error:
        kinds = (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError)
        return next((kind.__name__ for kind in kinds if isinstance(error, kind)), "Exception")
    return "none"


def _of_shardings(scope: dict) -> Iterator[tuple[str, str]]:
    shardings: dict[str, Any] = {}
    for mesh_name, (_, axes) in MESHES.items():
        mesh = _mesh(scope, mesh_name)
        for rank in range(1, len(axes) + 1):
            for source in SPECS[rank]:
                sharding = scope["NamedSharding"](mesh, eval(source, scope))
                shardings[f"{mesh_name} {source}"] = sharding
    for name, sharding in shardings.items():
        yield f"repr {name}", repr(sharding)
        facts = (
            sharding.is_fully_replicated,
            sharding.num_devices,
            sorted(sharding.replicated_axes),
        )
        yield f"facts {name}", str(facts)
        for shape in SHAPES:
            yield f"parts {name} {shape}", _parts(scope, sharding, shape)
    one = scope["SingleDeviceSharding"]
    shardings |= {"single 5": one(scope["d"][5]), "single 0": one(scope["d"][0])}
    for ndim in (3, 4):
        for (name, first), (other, second) in itertools.combinations(shardings.items(), 2):
            if first.num_devices == second.num_devices:
                alike = first.is_equivalent_to(second, ndim), first == second
                yield f"alike {name} / {other} / {ndim}", "".join("ny"[flag] for flag in alike)


def _parts(scope: dict, sharding: Any, shape: tuple[int, ...]) -> str:
    """Shape of a part, and per device its index and replica id; for errors that there is one."""
    try:
        part = sharding.shard_shape(shape)
        indices = sharding.devices_indices_map(shape)
    except (ValueError, IndexError):
        return "error"
    words = [str(part)]
    for device, index in indices.items():
        places = ["all" if s.start is None else f"{s.start}:{s.stop}" for s in index]
        replica = scope["Shard"](device, sharding, shape).replica_id
        words.append(f"{device.id}@{','.join(places)}#{replica}")
    return " ".join(words)


def names_of(library: str) -> SimpleNamespace:
    """The names that the questions use, of `jax` or `tetrax`."""
    root = importlib.import_module(library)
    places = {
        library: (
            *("NamedSharding", "P", "Shard", "device_put", "set_mesh", "make_mesh", "devices"),
            *("local_devices", "device_count", "local_device_count", "process_index"),
            *("process_count", "process_indices"),
        ),
        f"{library}.sharding": (
            *("AbstractMesh", "AxisType", "Mesh", "PartitionSpec", "SingleDeviceSharding"),
            *("get_mesh", "get_abstract_mesh"),
        ),
        f"{library}.experimental.mesh_utils": ("create_device_mesh", "create_hybrid_device_mesh"),
        f"{library}.debug": ("visualize_sharding",),
    }
    names = {
        name: getattr(importlib.import_module(module), name)
        for module, found in places.items()
        for name in found
    }
    return SimpleNamespace(
        **names,
        np=np,
        d=root.devices(),
        from_callback=root.make_array_from_callback,
        from_parts=root.make_array_from_single_device_arrays,
        from_local=root.make_array_from_process_local_data,
    )


if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    answers = dict(all_answers(names_of("jax")))
    ORACLE.write_text(json.dumps(answers, indent=0, ensure_ascii=False) + "\n")
