"""Sizes that kernels and the library's routines of linear algebra agree on."""

from __future__ import annotations

BLOCK = 32
"""Reflections that are applied together."""
WIDTH = 24
"""Columns that are reduced to condensed form together."""
MOST_PARTS = 8
"""Parts of a product with a vector that are summed up at the end."""
PAD = 16
"""Elements that follow the last column of a padded matrix at least; routines make them zero."""


def stride(columns: int) -> int:
    """The row stride of a padded matrix: room for PAD more, an odd number of cache lines."""
    lines = (columns + PAD - 1) // PAD + 1
    return (lines + 1 - lines % 2) * PAD
