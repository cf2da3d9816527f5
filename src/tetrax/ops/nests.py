"""What loop nests written by operations share: offsets, elements, nests of independent stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from tetrax.ir import kernel, scalar
from tetrax.ir.kernel_types import F32
from tetrax.ir.views import is_complex, parts

Combine = Callable[[Any, Any], Any]


def flat(index: Sequence[Any], strides: Sequence[int]) -> Any:
    """The offset that an index with these strides stands for."""
    offset = kernel.index(0)
    for position, stride in zip(index, strides, strict=True):
        offset = kernel.add(offset, kernel.mul(position, stride))
    return offset


def vector_nest(builder: Any, extents: Sequence[int], kind: str = "vector") -> Any:
    """Loops over independent stores, the innermost by vectors."""
    return _VectorNest(builder, extents, kind)


class _VectorNest(ExitStack):
    def __init__(self, builder: Any, extents: Sequence[int], kind: str) -> None:
        super().__init__()
        self._builder, self._extents, self._kind = builder, extents, kind

    def __enter__(self) -> tuple[Any, ...]:  # type: ignore[override]
        super().__enter__()
        if not self._extents:
            return ()
        outer = self.enter_context(self._builder.nest(self._extents[:-1]))
        inner = self.enter_context(self._builder.loop(self._extents[-1], self._kind))
        return (*outer, inner)


def load_scalar(builder: Any, stored: Any, offset: Any) -> scalar.Scalar:
    """The element of a stored array at a flat offset."""
    if not is_complex(stored.dtype):
        return builder.load(stored.buffer, offset)
    first = kernel.mul(offset, parts(stored.dtype))
    return scalar.Complex(
        builder.load(stored.buffer, first), builder.load(stored.buffer, kernel.add(first, 1))
    )


def store_scalar(
    builder: Any, stored: Any, offset: Any, value: scalar.Scalar, spare: Any = None
) -> None:
    """Write the element of a stored array at a flat offset.

    A complex value made of the element itself needs `spare`, a (buffer, offset) that keeps the new
    real part until the imaginary one, which reads the old real part, is written.
    """
    if not isinstance(value, scalar.Complex):
        builder.store(stored.buffer, offset, value)
        return
    first = kernel.mul(offset, parts(stored.dtype))
    real = value.re
    if spare is not None:
        builder.store(*spare, real)
        real = builder.load(*spare)
        builder.store(stored.buffer, kernel.add(first, 1), value.im)
        builder.store(stored.buffer, first, real)
        return
    builder.store(stored.buffer, first, real)
    builder.store(stored.buffer, kernel.add(first, 1), value.im)


def combined(combine: Combine, x: scalar.Scalar, y: scalar.Scalar) -> scalar.Scalar:
    """`combine` in float32 for narrow floats."""
    if x.type.is_storage:
        wide = combine(scalar.convert(x, F32), scalar.convert(y, F32))
        return scalar.convert(wide, x.type)
    return combine(x, y)


__all__ = ["Combine", "combined", "flat", "load_scalar", "store_scalar", "vector_nest"]
