"""Vector quantization."""

from __future__ import annotations

from typing import Any

from tetrax import numpy as jnp
from tetrax.numpy._promote import ensure_arraylike, promote_dtypes_inexact

__all__ = ["vq"]


def vq(obs: Any, code_book: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """Return the nearest code of each observation, and the distance to it."""
    ensure_arraylike("vq", obs, code_book)
    obs, codes = promote_dtypes_inexact(obs, code_book)
    if obs.ndim != codes.ndim:
        raise ValueError("Observation and code_book should have the same rank")
    if obs.ndim == 1:
        obs, codes = obs[:, None], codes[:, None]
    if obs.ndim != 2:
        raise ValueError("ndim different than 1 or 2 are not supported")
    distances = jnp.linalg.norm(obs[:, None, :] - codes[None, :, :], axis=-1)
    return jnp.argmin(distances, axis=-1), jnp.min(distances, axis=-1)
