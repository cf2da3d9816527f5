"""Interpolation in images: `tetrax.scipy.ndimage`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes
from tetrax import numpy as jnp
from tetrax.numpy._promote import ensure_arraylike

__all__ = ["map_coordinates"]


def _mirrored(i: Any, size: int) -> Any:
    last = size - 1
    if last == 0:
        return jnp.zeros_like(i)
    return jnp.abs((i + last) % (2 * last) - last)


def _reflected(i: Any, size: int) -> Any:
    return jnp.floor_divide(_mirrored(2 * i + 1, 2 * size + 1), 2)


_PLACES = {
    "constant": lambda i, size: i,
    "nearest": lambda i, size: jnp.clip(i, 0, size - 1),
    "wrap": lambda i, size: i % size,
    "mirror": _mirrored,
    "reflect": _reflected,
}


def _rounded(x: Any) -> Any:
    """Round to the nearest integer, halves away from zero."""
    return jnp.sign(x) * jnp.floor(jnp.abs(x) + 0.5)


def _neighbours(order: int, place: Any) -> list[tuple[Any, Any]]:
    """Return (index, weight) of the samples next to each place, along one axis."""
    if order == 0:
        return [(_rounded(place).astype(np.int32), jnp.ones((), place.dtype))]
    lower = jnp.floor(place)
    upper_weight = place - lower
    index = lower.astype(np.int32)
    return [(index, 1 - upper_weight), (index + 1, upper_weight)]


def map_coordinates(
    input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant", cval: Any = 0.0
) -> Any:
    """Return the values of `input` at fractional places, one array of places per axis.

    `order` is 0 (nearest) or 1 (linear); `mode` says what lies outside: "constant" (`cval`),
    "nearest", "wrap", "mirror" or "reflect".
    """
    image = ensure_arraylike("map_coordinates", input)
    places = [jnp.asarray(place) for place in coordinates]
    if len(places) != image.ndim:
        raise ValueError(
            "coordinates must be a sequence of length input.ndim, but "
            f"{len(places)} != {image.ndim}"
        )
    if mode not in _PLACES:
        raise NotImplementedError(
            f"map_coordinates does not support mode {mode!r}; it has {sorted(_PLACES)}"
        )
    if order not in (0, 1):
        raise NotImplementedError("map_coordinates requires order<=1")
    kind = dtypes.to_inexact_dtype(np.result_type(*(place.dtype for place in places)))
    axes = []
    for place, size in zip(places, image.shape, strict=True):
        found = []
        for index, weight in _neighbours(order, place.astype(kind)):
            inside = (index >= 0) & (index < size)
            found.append((_PLACES[mode](index, size), inside, weight))
        axes.append(found)
    total: Any = 0
    fill = jnp.asarray(cval, image.dtype)
    for corner in itertools.product(*axes):
        indices, insides, weights = zip(*corner, strict=True)
        values = image[
            tuple(jnp.clip(i, 0, n - 1) for i, n in zip(indices, image.shape, strict=True))
        ]
        if mode == "constant":
            inside = insides[0]
            for other in insides[1:]:
                inside = inside & other
            values = jnp.where(inside, values, fill)
        for weight in weights:
            values = values if order == 0 else values * weight
        total = total + values
    if dtypes.issubdtype(image.dtype, np.integer):
        total = _rounded(total) if total.dtype.kind == "f" else total
    return total.astype(image.dtype)
