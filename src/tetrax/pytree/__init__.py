"""Trees: nested containers of arrays, taken apart into leaves and a structure and put together.

`_registry` says which types are nodes, `_structure` flattens and builds, `_keys` and `_paths` tell
where a leaf is, `_prefix` matches trees, `_functions` is what users call. Written in plain Python
on plain tuples: measured against an extension in C++, flattening a tree of 200 leaves is faster
that way.
"""

from __future__ import annotations
