"""The functions of `tetrax.tree` under their longer names, and registration of node types."""

from __future__ import annotations

from .pytree._dataclasses import register_dataclass
from .pytree._functions import all as tree_all
from .pytree._functions import (
    all_leaves,
    build_tree,
    default_registry,
)
from .pytree._functions import broadcast as tree_broadcast
from .pytree._functions import leaves as tree_leaves
from .pytree._functions import map as tree_map
from .pytree._functions import reduce as tree_reduce
from .pytree._functions import reduce_associative as tree_reduce_associative
from .pytree._functions import structure as tree_structure
from .pytree._functions import transpose as tree_transpose
from .pytree._keys import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyEntry,
    KeyPath,
    SequenceKey,
    keystr,
)
from .pytree._partial import Partial
from .pytree._paths import flatten_with_path as tree_flatten_with_path
from .pytree._paths import generate_key_paths
from .pytree._paths import leaves_with_path as tree_leaves_with_path
from .pytree._paths import map_with_path as tree_map_with_path
from .pytree._prefix import (
    broadcast_prefix,
    equality_errors,
    equality_errors_pytreedef,
    flatten_axes,
    prefix_errors,
)
from .pytree._registry import (
    flatten_one_level,
    flatten_one_level_with_keys,
    is_tree_node,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
)
from .pytree._structure import (
    PyTreeDef,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
)
from .pytree._structure import flatten as tree_flatten
from .pytree._structure import unflatten as tree_unflatten

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "broadcast_prefix",
    "build_tree",
    "default_registry",
    "equality_errors",
    "equality_errors_pytreedef",
    "flatten_axes",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "generate_key_paths",
    "is_tree_node",
    "keystr",
    "prefix_errors",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]
