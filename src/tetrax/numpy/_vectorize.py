"""Turning functions of scalars or small arrays into functions of large ones, by `vmap`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from tetrax import lax
from tetrax.numpy._convert import asarray
from tetrax.numpy._promote import canonicalize_axis, check_arraylike, ensure_arraylike, to_array
from tetrax.numpy._shapes import expand_dims
from tetrax.numpy._typing import Array, ArrayLike
from tetrax.transforms.mapping import vmap

Core = tuple[str, ...]

_NAME = r"\w+"
_CORE = rf"\((?:{_NAME}(?:,{_NAME})*)?\)"
_CORES = rf"{_CORE}(?:,{_CORE})*"
_SIGNATURE = re.compile(rf"^(?:{_CORES})?->{_CORES}$")


def _parse_signature(signature: str) -> tuple[list[Core], list[Core]]:
    """Read a signature such as `(m,n),(n)->(m)`: the core axes of inputs and outputs."""
    text = signature.replace(" ", "")
    if not _SIGNATURE.match(text):
        raise ValueError(f"not a valid gufunc signature: {signature}")
    inputs, outputs = text.split("->")
    return _cores(inputs), _cores(outputs)


def _cores(text: str) -> list[Core]:
    return [tuple(re.findall(_NAME, core)) for core in re.findall(_CORE, text)]


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """Make a function broadcast over leading axes of its arguments.

    `signature` names the axes that the function itself wants, as in `(m,n),(n)->(m)`. Arguments in
    `excluded`, by position or name, are passed on as they are. Other keyword arguments likewise.

    >>> vectorize(lambda x, y: x + y)(np.zeros((2, 1)), np.zeros(3)).shape
    (2, 3)
    """
    if any(not isinstance(item, (str, int)) for item in excluded):
        raise TypeError(
            f"jax.numpy.vectorize can only exclude integer or string arguments, but "
            f"excluded={set(excluded)!r}"
        )
    if any(isinstance(item, int) and item < 0 for item in excluded):
        raise ValueError(f"excluded={set(excluded)!r} contains negative numbers")
    parsed = None if signature is None else _parse_signature(signature)

    @functools.wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        where = (
            f"on vectorized function with excluded={set(excluded)!r} and signature={signature!r}"
        )
        fixed = {i: arg for i, arg in enumerate(args) if i in excluded or arg is None}
        mapped = [arg for i, arg in enumerate(args) if i not in fixed]
        named = [key for key in kwargs if parsed is None and key not in excluded]
        mapped_names = {} if parsed else {key: kwargs[key] for key in named}
        rest = {key: value for key, value in kwargs.items() if key not in mapped_names}
        call = _Call(pyfunc, len(args), fixed, tuple(mapped_names), rest)
        values = [*mapped, *mapped_names.values()]
        return _broadcast_call(call, values, parsed, where)

    return wrapped


class _Call:
    """The function with its fixed arguments put back in their places."""

    def __init__(
        self,
        function: Callable[..., Any],
        count: int,
        fixed: dict[int, Any],
        names: tuple[str, ...],
        keywords: dict[str, Any],
    ) -> None:
        self.function = function
        self.count = count
        self.fixed = fixed
        self.names = names
        self.keywords = keywords

    def __call__(self, *values: Any) -> Any:
        positional = iter(values[: len(values) - len(self.names)])
        named = dict(zip(self.names, values[len(values) - len(self.names) :], strict=True))
        args = [self.fixed[i] if i in self.fixed else next(positional) for i in range(self.count)]
        return self.function(*args, **named, **self.keywords)


def _broadcast_call(call: _Call, values: Sequence[Any], parsed: Any, where: str) -> Any:
    check_arraylike("vectorize", *values)
    arrays = [to_array(value) for value in values]
    cores = [()] * len(arrays) if parsed is None else parsed[0]
    if len(cores) != len(arrays):
        raise TypeError(
            f"wrong number of positional arguments: expected {len(cores)}, got {len(arrays)}"
        )
    sizes: dict[str, int] = {}
    for array, core in zip(arrays, cores, strict=True):
        _match(array.shape, core, sizes, where)
    checked = call if parsed is None else _checked(call, parsed[1], sizes, where)
    outer = [
        array.shape[: array.ndim - len(core)] for array, core in zip(arrays, cores, strict=True)
    ]
    shape = lax.broadcast_shapes(*outer) if outer else ()
    return _mapped(checked, arrays, outer, len(shape))(*_squeezed(arrays, outer))


def _match(shape: tuple[int, ...], core: Core, sizes: dict[str, int], where: str) -> None:
    if len(shape) < len(core):
        raise ValueError(
            f"input with shape {shape} does not have enough dimensions for all core dimensions "
            f"{core} {where}"
        )
    for name, size in zip(core, shape[len(shape) - len(core) :], strict=True):
        if name in sizes and sizes[name] != size:
            raise ValueError(
                f"inconsistent size for core dimension {name!r}: {size} vs {sizes[name]} {where}"
            )
        sizes[name] = size


def _checked(
    call: Callable[..., Any], cores: list[Core], sizes: dict[str, int], where: str
) -> Callable[..., Any]:
    def checked(*args: Any) -> Any:
        result = call(*args)
        several = len(cores) > 1
        if several and not isinstance(result, tuple):
            raise TypeError(
                f"output must be a tuple when multiple outputs are expected, got: {result}"
            )
        outputs = result if several else (result,)
        if len(outputs) != len(cores):
            raise TypeError(
                f"wrong number of output arguments: expected {len(cores)}, got {len(outputs)}"
            )
        for output, core in zip(outputs, cores, strict=True):
            shape = np.shape(output)
            if len(shape) != len(core):
                raise ValueError(
                    f"output shape {shape} does not match core dimensions {_text(core)} {where}"
                )
            _match(shape, core, dict(sizes), where)
        return result

    return checked


def _text(core: Core) -> str:
    return "(" + ",".join(core) + ("," if len(core) == 1 else "") + ")"


def _squeezed(arrays: list[Array], outer: list[tuple[int, ...]]) -> list[Array]:
    """Drop leading axes of size one: they are not mapped over."""
    return [
        lax.squeeze(array, tuple(i for i, size in enumerate(shape) if size == 1))
        if 1 in shape
        else array
        for array, shape in zip(arrays, outer, strict=True)
    ]


def _mapped(
    call: Callable[..., Any], arrays: list[Array], outer: list[tuple[int, ...]], rank: int
) -> Callable[..., Any]:
    """Wrap the function in one `vmap` per leading axis, the last axis innermost."""
    function = call
    full = [(1,) * (rank - len(shape)) + shape for shape in outer]
    units = []
    for axis in range(rank - 1, -1, -1):
        in_axes = tuple(0 if shape[axis] != 1 else None for shape in full)
        if all(place is None for place in in_axes):
            units.append(axis)
        else:
            function = vmap(function, in_axes=in_axes)
    if not units:
        return function
    axes = tuple(sorted(units))

    def with_units(*args: Any) -> Any:
        result = function(*args)
        if isinstance(result, tuple):
            return tuple(expand_dims(part, axes) for part in result)
        return expand_dims(result, axes)

    return with_units


# --------------------------------------------------------------------------- along axes


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Any:
    """Apply a function of vectors to every vector along an axis."""
    a = ensure_arraylike("apply_along_axis", arr)
    axis = canonicalize_axis(axis, a.ndim)

    def function(vector: Array) -> Any:
        return func1d(vector, *args, **kwargs)

    for i in range(1, a.ndim - axis):
        function = vmap(function, in_axes=i, out_axes=-1)
    for _ in range(axis):
        function = vmap(function, in_axes=0, out_axes=0)
    return function(a)


def apply_over_axes(
    func: Callable[[Array, int], Array], a: ArrayLike, axes: Sequence[int]
) -> Array:
    """Apply a function that reduces one axis to several axes in turn, keeping them as ones."""
    a = ensure_arraylike("apply_over_axes", a)
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        result = asarray(func(a, axis))
        if result.ndim == a.ndim:
            a = result
        elif result.ndim == a.ndim - 1:
            a = expand_dims(result, axis)
        else:
            raise ValueError("function is not returning an array of the correct shape")
    return a
