"""Products whose rows belong to groups, each with a matrix of its own.

Written as one product: each row stands in the columns of its group and is zero elsewhere. It costs
as many multiplications as there are groups, and differentiates and batches by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tetrax import errors
from tetrax.ops.arithmetic import sub
from tetrax.ops.bits_and_compare import bitwise_and, ge, lt
from tetrax.ops.contract import dot_general
from tetrax.ops.creation import broadcasted_iota, full_like
from tetrax.ops.cumulative import cumsum
from tetrax.ops.select import select
from tetrax.ops.structure import broadcast_in_dim, reshape
from tetrax.runtime.array import as_value


class RaggedDotDimensionNumbers(NamedTuple):
    """Axes of a ragged product: those of the product, the rows' axis, and the groups' axis."""

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


def ragged_dot(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Rows of `lhs` (m, k) times the matrix of their group in `rhs` (groups, k, n).

    `group_sizes` says how many rows, from the first on, belong to each group; rows of no group give
    zeros. Raises ShapeError for shapes that do not fit.

    >>> import numpy as np
    >>> ragged_dot(np.ones((3, 2)), np.ones((2, 2, 4)), np.array([1, 2])).shape
    (3, 4)
    """
    lhs, rhs, sizes = as_value(lhs), as_value(rhs), as_value(group_sizes)
    if group_offset is not None:
        raise NotImplementedError("ragged_dot: group_offset is not implemented; pass None")
    shapes = lhs.shape, rhs.shape, sizes.shape
    fits = [x.ndim for x in (lhs, rhs, sizes)] == [2, 3, 1]
    if not fits or lhs.shape[1] != rhs.shape[1] or rhs.shape[0] != sizes.shape[0]:
        raise errors.ShapeError(
            "ragged_dot needs shapes (m, k), (groups, k, n) and (groups,): got "
            + ", ".join(str(shape) for shape in shapes)
        )
    (m, k), (groups, _, n) = lhs.shape, rhs.shape
    ends = cumsum(sizes, 0)
    starts = sub(ends, sizes)
    rows = broadcasted_iota(sizes.dtype, (m, groups), 0)
    belongs = bitwise_and(
        ge(rows, broadcast_in_dim(starts, (m, groups), (1,))),
        lt(rows, broadcast_in_dim(ends, (m, groups), (1,))),
    )
    spread = broadcast_in_dim(lhs, (m, groups, k), (0, 2))
    chosen = broadcast_in_dim(belongs, (m, groups, k), (0, 1))
    spread = select(chosen, spread, full_like(spread, 0))
    return dot_general(
        reshape(spread, (m, groups * k)),
        reshape(rhs, (groups * k, n)),
        (((1,), (0,)), ((), ())),
        precision,
        preferred_element_type,
    )


def ragged_dot_general(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`ragged_dot` with explicit axes; only those of `ragged_dot` itself are implemented."""
    (contract, batch), ragged, groups = ragged_dot_dimension_numbers
    given = (tuple(map(tuple, contract)), tuple(map(tuple, batch)), tuple(ragged), tuple(groups))
    if given != (((1,), (1,)), ((), ()), (0,), (0,)):
        raise NotImplementedError(
            "ragged_dot_general: only the dimension numbers of ragged_dot are implemented, got "
            f"{ragged_dot_dimension_numbers}"
        )
    return ragged_dot(lhs, rhs, group_sizes, precision, preferred_element_type, group_offset)


__all__ = ["RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general"]
