"""Einstein summation: parsing and path by opt_einsum, each step of the path one contraction."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax._lazy import lazy_module
from tetrax.numpy._promote import check_arraylike, check_no_out, convert, promote_dtypes, user_dtype
from tetrax.numpy._rearrange import diagonal
from tetrax.numpy._typing import Array, ArrayLike, DTypeLike, PrecisionLike, Shape

opt_einsum = lazy_module("opt_einsum")


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
    _dot_general: Any = lax.dot_general,
    out_sharding: Any = None,
) -> Array:
    """Multiply arrays and sum over the axes that the output does not name.

    >>> einsum("ij,j->i", np.eye(2), np.array([1.0, 2.0]))
    Array([1., 2.], dtype=float32)
    """
    check_no_out("einsum", out)
    equation, arrays = _read(subscripts, operands)
    check_arraylike("einsum", *arrays)
    dtype, weak_type = dtypes.result_type(*arrays, return_weak_type_flag=True)
    if preferred_element_type is not None:
        dtype, weak_type = user_dtype(preferred_element_type, "einsum"), False
    values = promote_dtypes(*arrays)
    inputs, output, path = _plan(equation, tuple(x.shape for x in values), _hashable(optimize))
    contraction = _Contraction(precision, dtype, _dot_general)
    result = contraction.run(list(zip(values, inputs, strict=True)), output, path)
    result = convert(result, dtype, weak_type)
    return result if out_sharding is None else lax.with_sharding_constraint(result, out_sharding)


def einsum_path(
    subscripts: Any, /, *operands: Any, optimize: Any = "auto"
) -> tuple[list[tuple[int, ...]], Any]:
    """Return the order in which `einsum` would contract its operands, and a report on the cost."""
    if isinstance(optimize, bool):
        optimize = "optimal" if optimize else [tuple(range(len(operands)))]
    elif optimize == "auto":
        optimize = "optimal"
    return opt_einsum.contract_path(subscripts, *operands, optimize=optimize)


def _read(subscripts: Any, operands: tuple[Any, ...]) -> tuple[str, list[ArrayLike]]:
    """Return the equation and the arrays, from either way of writing them."""
    if isinstance(subscripts, str):
        return subscripts, list(operands)
    mixed = (subscripts, *operands)
    arrays = list(mixed[0 : len(mixed) - len(mixed) % 2 : 2])
    equation, _ = opt_einsum.parser.convert_interleaved_input(mixed)
    return equation, arrays


def _hashable(optimize: Any) -> Any:
    if isinstance(optimize, list):
        return tuple(tuple(step) if isinstance(step, (list, tuple)) else step for step in optimize)
    return optimize


@functools.lru_cache(maxsize=4096)
def _plan(
    equation: str, shapes: tuple[Shape, ...], optimize: Any
) -> tuple[list[str], str, list[tuple[int, ...]]]:
    """Return the names of each operand's axes, those of the result, and the steps."""
    inputs, output, _ = opt_einsum.parser.parse_einsum_input((equation, *shapes), shapes=True)
    names = inputs.split(",")
    for subscript, shape in zip(names, shapes, strict=True):
        if len(subscript) != len(shape):
            raise ValueError(
                f"einsum: the subscript '{subscript}' names {len(subscript)} axes of an operand of "
                f"shape {shape}"
            )
    _check_sizes(names, shapes, equation)
    if len(shapes) <= 2:
        return names, output, [tuple(range(len(shapes)))]
    if isinstance(optimize, tuple):
        return names, output, [step for step in optimize if not isinstance(step, str)]
    if optimize in ("auto", True):
        optimize = "optimal" if len(shapes) <= 8 else "auto"
    if optimize is False:
        return names, output, [(0, 1)] + [(0, i) for i in range(len(shapes) - 2, 0, -1)]
    path, _ = opt_einsum.contract_path(
        f"{inputs}->{output}", *shapes, shapes=True, optimize=optimize
    )
    return names, output, [tuple(step) for step in path]


def _check_sizes(names: list[str], shapes: tuple[Shape, ...], equation: str) -> None:
    sizes: dict[str, int] = {}
    for subscript, shape in zip(names, shapes, strict=True):
        for name, size in zip(subscript, shape, strict=True):
            if sizes.setdefault(name, size) != size:
                if 1 not in (size, sizes[name]):
                    raise ValueError(
                        f"einsum: the axis '{name}' of '{equation}' has sizes {sizes[name]} and "
                        f"{size}; "
                        f"the operands have shapes {', '.join(map(str, shapes))}"
                    )
                sizes[name] = max(size, sizes[name])


class _Contraction:
    """Carries out the steps of a path."""

    def __init__(self, precision: PrecisionLike, dtype: np.dtype, dot_general: Any) -> None:
        self.precision = precision
        self.dtype = dtype
        self.dot_general = dot_general

    def run(
        self, operands: list[tuple[Array, str]], output: str, path: list[tuple[int, ...]]
    ) -> Array:
        for step in path:
            taken = [operands[i] for i in step]
            operands = [operand for i, operand in enumerate(operands) if i not in step]
            kept = set(output).union(*(names for _, names in operands))
            while len(taken) > 1:
                first, second, *rest = taken
                wanted = kept.union(*(names for _, names in rest))
                taken = [self._pair(first, second, wanted), *rest]
            operands.append(self._alone(*taken[0], kept))
        array, names = operands[0]
        order = [names.index(name) for name in output]
        return array if order == list(range(len(order))) else lax.transpose(array, order)

    def _alone(self, array: Array, names: str, kept: set[str]) -> tuple[Array, str]:
        """Take diagonals of repeated names, and sum over names that nothing else needs."""
        for name, count in Counter(names).items():
            for _ in range(count - 1):
                i = names.index(name)
                j = names.index(name, i + 1)
                array = diagonal(array, 0, i, j)
                names = names[:i] + names[i + 1 : j] + names[j + 1 :] + name
        summed = tuple(i for i, name in enumerate(names) if name not in kept)
        if summed:
            if array.dtype == np.bool_:
                array = lax.reduce_or(array, summed)
            else:
                array = lax.reduce_sum(array, summed)
            names = "".join(name for name in names if name in kept)
        return array, names

    def _pair(
        self, first: tuple[Array, str], second: tuple[Array, str], kept: set[str]
    ) -> tuple[Array, str]:
        x, x_names = self._alone(*first, kept | set(second[1]))
        y, y_names = self._alone(*second, kept | set(first[1]))
        x, x_names = _without_units(x, x_names, y, y_names)
        y, y_names = _without_units(y, y_names, x, x_names)
        # What only one side still has, and nobody needs, was shared with an axis of size one.
        x, x_names = self._alone(x, x_names, kept | set(y_names))
        y, y_names = self._alone(y, y_names, kept | set(x_names))
        shared = [name for name in x_names if name in y_names]
        batch = [name for name in shared if name in kept]
        summed = [name for name in shared if name not in kept]
        numbers = (
            (tuple(map(x_names.index, summed)), tuple(map(y_names.index, summed))),
            (tuple(map(x_names.index, batch)), tuple(map(y_names.index, batch))),
        )
        result = self.dot_general(
            x, y, numbers, precision=self.precision, preferred_element_type=self.dtype
        )
        free = [name for name in x_names if name not in shared]
        free += [name for name in y_names if name not in shared]
        return result, "".join(batch + free)


def _without_units(x: Array, x_names: str, y: Array, y_names: str) -> tuple[Array, str]:
    """Drop axes of size one that the other operand has in full size."""
    units = tuple(
        i
        for i, name in enumerate(x_names)
        if x.shape[i] == 1 and name in y_names and y.shape[y_names.index(name)] != 1
    )
    if not units:
        return x, x_names
    names = "".join(name for i, name in enumerate(x_names) if i not in units)
    return lax.squeeze(x, units), names
