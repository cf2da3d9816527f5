"""Interpolation on grids against SciPy."""

from __future__ import annotations

import pytest
import scipy.interpolate

import numpy as np
import tetrax
from tetrax.scipy.interpolate import RegularGridInterpolator

GRID = (np.float32([0, 1, 3]), np.float32([-1, 0.5, 2, 4]))
VALUES = np.random.default_rng(0).normal(size=(3, 4, 2)).astype(np.float32)
PLACES = np.float32([[0.2, 0.0], [2.9, 3.7], [1.0, 0.5], [0.0, -1.0], [-0.5, 1.0], [3.5, 5.0]])


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, 7.0, None])
def test_grids(method, fill):
    ours = RegularGridInterpolator(GRID, VALUES, method, fill_value=fill)
    theirs = scipy.interpolate.RegularGridInterpolator(
        GRID, VALUES, method, bounds_error=False, fill_value=fill
    )
    np.testing.assert_allclose(ours(PLACES), theirs(PLACES), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(tetrax.jit(ours)(PLACES), theirs(PLACES), rtol=1e-5, atol=1e-5)


def test_mistakes():
    with pytest.raises(ValueError, match="method"):
        RegularGridInterpolator(GRID, VALUES, "cubic")
    with pytest.raises(ValueError, match="points"):
        RegularGridInterpolator(GRID[::-1], VALUES)
    with pytest.raises(ValueError, match="dimension"):
        RegularGridInterpolator(GRID, VALUES)(PLACES[:, :1])
