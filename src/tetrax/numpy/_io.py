"""Files, and how arrays print."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax.numpy._convert import asarray
from tetrax.numpy._typing import Array


def get_printoptions() -> dict[str, Any]:
    """Return how arrays are printed; NumPy's settings hold here too."""
    return np.get_printoptions()


def set_printoptions(*args: Any, **kwargs: Any) -> None:
    """Set how arrays are printed, as `numpy.set_printoptions`."""
    np.set_printoptions(*args, **kwargs)


def printoptions(*args: Any, **kwargs: Any) -> Any:
    """Set how arrays are printed inside a `with` block, as `numpy.printoptions`."""
    return np.printoptions(*args, **kwargs)


def save(file: Any, arr: Any, allow_pickle: bool = True) -> None:
    """Write an array to a file in NumPy's format."""
    np.save(file, np.asarray(arr), allow_pickle=allow_pickle)


def savez(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Write several arrays to one file in NumPy's format."""
    arrays = [np.asarray(arg) for arg in args]
    named = {name: np.asarray(value) for name, value in kwds.items()}
    np.savez(file, *arrays, allow_pickle=allow_pickle, **named)


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Read an array, or an archive of arrays, from a file in NumPy's format.

    Files with pickled objects are refused unless `allow_pickle=True` is passed: reading them runs
    code.
    """
    loaded = np.load(file, *args, **kwargs)
    if not isinstance(loaded, np.ndarray):
        return loaded
    # NumPy's format keeps no name for dtypes that NumPy itself does not know.
    if loaded.dtype == np.dtype("V2"):
        loaded = loaded.view(dtypes.bfloat16)
    return asarray(loaded)


def array_repr(
    arr: Array,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """Return an array as text that says that it is one."""
    return np.array_repr(np.asarray(arr), max_line_width, precision, suppress_small)


def array_str(
    a: Array,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """Return the elements of an array as text."""
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)
