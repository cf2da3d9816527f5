"""What the array API standard asks a namespace to say about itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax.runtime.devices import default_device, devices

__array_api_version__ = "2024.12"

_BY_KIND: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_GROUPS: dict[str, tuple[str, ...]] = {
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}


class ArrayNamespaceInfo:
    """Capabilities, devices and dtypes of this namespace."""

    def capabilities(self) -> dict[str, Any]:
        """Return what the namespace can do under every transformation."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> Any:
        """Return the device that new arrays get."""
        return default_device()

    def devices(self) -> list[Any]:
        """Return the devices there are."""
        return [None, *devices()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """Return the dtype that numbers of each kind get."""
        return {
            "real floating": dtypes.default_float_dtype(),
            "complex floating": dtypes.default_complex_dtype(),
            "integral": dtypes.default_int_dtype(),
            "indexing": dtypes.default_int_dtype(),
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype]:
        """Return the dtypes there are, by name, of a kind or several."""
        kinds = tuple(_BY_KIND) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        names: list[str] = []
        for wanted in kinds:
            groups = _GROUPS.get(wanted, (wanted,))
            for group in groups:
                if group not in _BY_KIND:
                    raise ValueError(f"there are no dtypes of the kind {wanted!r}")
                names.extend(_BY_KIND[group])
        found = {name: np.dtype(name) for name in names}
        return {
            name: dtype
            for name, dtype in found.items()
            if dtypes.canonicalize_dtype(dtype) == dtype
        }


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """Return what the namespace says about itself."""
    return ArrayNamespaceInfo()
