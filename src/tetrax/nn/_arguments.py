"""What the functions of `nn` do with their arguments first."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import numpy as jnp
from tetrax.tracing.value import Value


def check_arrays(name: str, *args: Any) -> None:
    """Raises TypeError for an argument that is no array or number (lists are refused)."""
    for position, x in enumerate(args):
        if not isinstance(x, Value | np.ndarray | np.generic | int | float | complex) and (
            not hasattr(x, "__jax_array__")
        ):
            raise TypeError(
                f"{name} requires ndarray or scalar arguments, got {type(x)} at position "
                f"{position}."
            )


def as_array(name: str, x: Any) -> Any:
    """`x` as an array; numbers stay weakly typed."""
    check_arrays(name, x)
    return jnp.asarray(x)


def as_inexact(name: str, x: Any) -> Any:
    """`x` as a float or complex array; integers become floats."""
    x = as_array(name, x)
    return x if jnp.issubdtype(x.dtype, np.inexact) else jnp.true_divide(x, 1)
