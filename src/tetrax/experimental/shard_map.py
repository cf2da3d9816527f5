"""`shard_map` with the argument names that it had before it became `tetrax.shard_map`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from tetrax.higher_order.shard_map import shard_map as _shard_map
from tetrax.runtime.mesh import AbstractMesh, Mesh


def shard_map(
    f: Callable[..., Any],
    mesh: Mesh | AbstractMesh,
    in_specs: Any,
    out_specs: Any,
    check_rep: bool = True,
    auto: Collection[Any] = frozenset(),
) -> Any:
    """`tetrax.shard_map` over all axes of `mesh` but those of `auto`; `check_rep` is `check_vma`.

    Raises what `tetrax.shard_map` raises.
    """
    return _shard_map(
        f,
        mesh=mesh,
        in_specs=in_specs,
        out_specs=out_specs,
        axis_names=frozenset(mesh.axis_names) - frozenset(auto),
        check_vma=check_rep,
    )


__all__ = ["shard_map"]
