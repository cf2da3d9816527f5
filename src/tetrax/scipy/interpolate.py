"""Interpolation on grids: `tetrax.scipy.interpolate`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import numpy as jnp
from tetrax.numpy._promote import promote_dtypes_inexact

__all__ = ["RegularGridInterpolator"]


class RegularGridInterpolator:
    """A function given by values on a rectangular grid, interpolated in between.

    `points` holds the increasing coordinates of each axis; `method` is "linear" or "nearest".
    Outside the grid the value is `fill_value`, or extrapolated where that is None.

    >>> f = RegularGridInterpolator((np.float32([0, 1]),), np.float32([0, 2]))
    >>> f(np.float32([[0.25]]))
    Array([0.5], dtype=float32)
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = np.nan,
    ) -> None:
        if method not in ("linear", "nearest"):
            raise ValueError(f"method {method!r} is not defined; use 'linear' or 'nearest'")
        if bounds_error:
            raise NotImplementedError("`bounds_error` takes no effect under jit: pass False")
        self.values = promote_dtypes_inexact(jnp.asarray(values))[0]
        if len(points) > self.values.ndim:
            raise ValueError(
                f"there are {len(points)} point arrays, but values has {self.values.ndim} axes"
            )
        self.grid = tuple(jnp.asarray(axis) for axis in points)
        for i, axis in enumerate(self.grid):
            if axis.shape != (self.values.shape[i],):
                raise ValueError(f"axis {i}: {axis.shape} points for {self.values.shape[i]} values")
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value

    def __call__(self, xi: Any, method: str | None = None) -> Any:
        """Return the values at points whose coordinates lie along the last axis of `xi`."""
        method = self.method if method is None else method
        if method not in ("linear", "nearest"):
            raise ValueError(f"method {method!r} is not defined; use 'linear' or 'nearest'")
        rank = len(self.grid)
        if isinstance(xi, tuple | list):
            xi = jnp.stack(jnp.broadcast_arrays(*(jnp.asarray(x) for x in xi)), axis=-1)
        xi = jnp.asarray(xi)
        if rank == 1 and xi.ndim == 1:
            xi = xi[:, None]
        if xi.shape[-1] != rank:
            raise ValueError(
                f"the requested sample points xi have dimension {xi.shape[-1]}, but this "
                f"RegularGridInterpolator has dimension {rank}"
            )
        outer = xi.shape[:-1]
        columns = [xi[..., i].reshape(-1) for i in range(rank)]
        result = self._interpolated(columns, method)
        if self.fill_value is not None:
            outside = jnp.zeros(columns[0].shape, bool)
            for x, axis in zip(columns, self.grid, strict=True):
                outside = outside | (x < axis[0]) | (x > axis[-1])
            outside = outside.reshape(-1, *(1,) * (result.ndim - 1))
            result = jnp.where(outside, self.fill_value, result)
        return result.reshape(*outer, *self.values.shape[rank:])

    def _interpolated(self, columns: list[Any], method: str) -> Any:
        corners = []
        for x, axis in zip(columns, self.grid, strict=True):
            low = jnp.clip(jnp.searchsorted(axis, x) - 1, 0, max(axis.size - 2, 0))
            high = jnp.minimum(low + 1, axis.size - 1)
            step = axis[high] - axis[low]
            share = jnp.where(step == 0, 0, (x - axis[low]) / jnp.where(step == 0, 1, step))
            if method == "nearest":
                corners.append([(jnp.where(share <= 0.5, low, high), None)])
            else:
                corners.append([(low, 1 - share), (high, share)])
        total: Any = 0
        for corner in itertools.product(*corners):
            term = self.values[tuple(index for index, _ in corner)]
            for _, weight in corner:
                if weight is not None:
                    term = term * weight.reshape(-1, *(1,) * (term.ndim - 1))
            total = total + term
        return total
