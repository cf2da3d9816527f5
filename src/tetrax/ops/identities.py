"""The most extreme values of a dtype: where maxima and minima start."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import dtypes


def smallest(dtype: Any) -> Any:
    """The value that loses to every other in a maximum."""
    if dtype == np.bool_:
        return False
    if dtypes.issubdtype(dtype, np.integer):
        return int(dtypes.iinfo(dtype).min)
    return -np.inf if dtypes.supports_inf(dtype) else float(dtypes.finfo(dtype).min)


def largest(dtype: Any) -> Any:
    """The value that loses to every other in a minimum."""
    if dtype == np.bool_:
        return True
    if dtypes.issubdtype(dtype, np.integer):
        return int(dtypes.iinfo(dtype).max)
    return np.inf if dtypes.supports_inf(dtype) else float(dtypes.finfo(dtype).max)


__all__ = ["largest", "smallest"]
