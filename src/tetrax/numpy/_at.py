"""Changed copies: `x.at[index].set(values)`, `.add`, `.multiply` and the rest.

A slice known in advance is cut out, changed and put back; everything else is one scatter. Positions
outside the array are left out unless a mode says otherwise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.numpy._arithmetic import divide, power
from tetrax.numpy._convert import asarray
from tetrax.numpy._index_eager import changed, is_direct
from tetrax.numpy._index_parse import ParsedIndex, Position, Span, parse_index
from tetrax.numpy._index_plan import IndexPlan, plan_index
from tetrax.numpy._indexing import Mode, gather_mode, get, slice_spans
from tetrax.numpy._promote import convert, promote_dtypes, to_array
from tetrax.numpy._shapes import broadcast_to
from tetrax.numpy._typing import Array

_SCATTERS: dict[str, Callable[..., Array]] = {
    "set": lax.scatter,
    "add": lax.scatter_add,
    "subtract": lax.scatter_sub,
    "multiply": lax.scatter_mul,
    "min": lax.scatter_min,
    "max": lax.scatter_max,
}

_COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "set": lambda old, new: new,
    "add": lax.add,
    "subtract": lax.sub,
    "multiply": lax.mul,
    "min": lax.min,
    "max": lax.max,
}


class _IndexUpdateHelper:
    """`x.at`: waits for an index in square brackets."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> _IndexUpdateRef:
        return _IndexUpdateRef(self.array, index)

    def __repr__(self) -> str:
        return f"_IndexUpdateHelper({self.array!r})"


class _IndexUpdateRef:
    """`x.at[index]`: its methods return a changed copy of `x`."""

    __slots__ = ("array", "index")

    def __init__(self, array: Array, index: Any) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"_IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Return the elements, with a say in what happens outside the array."""
        taken = get(
            self.array,
            self.index,
            mode=mode,
            fill_value=fill_value,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            wrap_negative_indices=wrap_negative_indices,
        )
        return taken if out_sharding is None else lax.with_sharding_constraint(taken, out_sharding)

    def set(self, values: Any, **options: Any) -> Array:
        """Return the array with the elements replaced.

        Options, as for all methods: `mode`, `indices_are_sorted`, `unique_indices`,
        `wrap_negative_indices`.
        """
        return scatter(self.array, self.index, values, "set", **options)

    def add(self, values: Any, **options: Any) -> Array:
        """Return the array with values added to the elements; repeated positions add up."""
        return scatter(self.array, self.index, values, "add", **options)

    def subtract(self, values: Any, **options: Any) -> Array:
        """Return the array with values subtracted from the elements."""
        return scatter(self.array, self.index, values, "subtract", **options)

    def multiply(self, values: Any, **options: Any) -> Array:
        """Return the array with the elements multiplied by values."""
        return scatter(self.array, self.index, values, "multiply", **options)

    def mul(self, values: Any, **options: Any) -> Array:
        """Return the array with the elements multiplied by values."""
        return scatter(self.array, self.index, values, "multiply", **options)

    def divide(self, values: Any, **options: Any) -> Array:
        """Return the array with the elements divided by values."""
        divisors = scatter(_ones_like(self.array), self.index, values, "multiply", **options)
        return divide(self.array, divisors)

    def power(self, values: Any, **options: Any) -> Array:
        """Return the array with the elements raised to powers."""
        exponents = scatter(_ones_like(self.array), self.index, values, "multiply", **options)
        return power(self.array, exponents)

    def min(self, values: Any, **options: Any) -> Array:
        """Return the array with the elements lowered to values where they are above them."""
        return scatter(self.array, self.index, values, "min", **options)

    def max(self, values: Any, **options: Any) -> Array:
        """Return the array with the elements raised to values where they are below them."""
        return scatter(self.array, self.index, values, "max", **options)

    def apply(self, func: Callable[[Array], Array], **options: Any) -> Array:
        """Return the array with a function applied to elements, once each time they are named."""
        return scatter_apply(self.array, self.index, func, **options)


def _ones_like(x: Array) -> Array:
    return lax.full_like(x, 1)


# --------------------------------------------------------------------------- scatter


def scatter(
    x: Array,
    index: Any,
    values: Any,
    operation: str,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
    out_sharding: Any = None,
    wrap_negative_indices: bool = True,
) -> Array:
    """Combine values into the elements of `x` at an index; the result keeps the dtype of `x`."""
    if mode is None and wrap_negative_indices and out_sharding is None and is_direct(x):
        found = changed(x, index, values, operation)  # type: ignore[arg-type]
        if found is not None:
            return found
    y = asarray(values)
    dtype, weak_type = x.dtype, x.weak_type
    if not dtypes.safe_to_cast(y, x):
        warnings.warn(
            "scatter inputs have incompatible types: cannot safely cast value from "
            f"dtype={y.dtype} to dtype={dtype}. Convert it first: x.at[index].{operation}(values."
            f"astype({dtype})). In future releases this will result in an error.",
            FutureWarning,
            stacklevel=4,
        )
    parsed = parse_index(index, x.shape)
    work, y = promote_dtypes(x, y)
    if work.shape != parsed.shape:
        work = lax.reshape(work, parsed.shape)
    spans = _static_spans(parsed) if wrap_negative_indices else None
    if spans is not None:
        result = _replace_slice(work, y, parsed, spans, operation)
    else:
        plan = plan_index(parsed, wrap_negative=wrap_negative_indices)
        updates = _updates(y, plan)
        result = _scattered(
            work, updates, plan, _SCATTERS[operation], mode, indices_are_sorted, unique_indices
        )
    result = lax.reshape(result, x.shape) if result.shape != x.shape else result
    result = _cast_back(result, dtype, weak_type)
    return result if out_sharding is None else lax.with_sharding_constraint(result, out_sharding)


def _cast_back(result: Array, dtype: Any, weak_type: bool) -> Array:
    if result.dtype != dtype and result.dtype.kind == "c" and dtype.kind != "c":
        result = lax.real(result)
    return convert(result, dtype, weak_type)


def _result_shape(plan: IndexPlan) -> tuple[int, ...]:
    shape = list(plan.shape)
    for axis in plan.new_axes:
        shape.insert(axis, 1)
    return tuple(shape)


def _updates(y: Array, plan: IndexPlan) -> Array:
    """Broadcast the values to the index's shape and drop the axes that `None` added."""
    full = broadcast_to(y, _result_shape(plan))
    return lax.squeeze(full, plan.new_axes) if plan.new_axes else full


def _numbers(plan: IndexPlan) -> lax.ScatterDimensionNumbers:
    return lax.ScatterDimensionNumbers(
        update_window_dims=plan.window_dims,
        inserted_window_dims=plan.collapsed,
        scatter_dims_to_operand_dims=plan.indexed_axes,
    )


def _scattered(
    x: Array,
    updates: Array,
    plan: IndexPlan,
    operation: Any,
    mode: Any,
    is_sorted: bool,
    unique: bool,
) -> Array:
    if updates.size == 0:
        return x
    chosen = gather_mode(mode)
    return operation(
        x,
        plan.start_indices,
        updates,
        _numbers(plan),
        indices_are_sorted=is_sorted or plan.single,
        unique_indices=unique or plan.single,
        mode=Mode.FILL_OR_DROP if chosen is None else chosen,
    )


# --------------------------------------------------------------------------- known slices


def _static_spans(index: ParsedIndex) -> list[Span] | None:
    """Return an index of known integers and contiguous slices as slices, else None."""
    spans: list[Span] = []
    for entry in index.entries:
        if isinstance(entry, Span):
            if entry.step != 1:
                return None
            spans.append(entry)
        elif isinstance(entry, Position):
            size = index.shape[entry.axis]
            if not isinstance(entry.value, int) or not -size <= entry.value < size:
                return None
            spans.append(Span(entry.axis, entry.value % size, 1, 1, size == 1))
    return spans


def _replace_slice(
    x: Array, y: Array, index: ParsedIndex, spans: list[Span], operation: str
) -> Array:
    """Cut a piece out, change it and put it back."""
    ordered = sorted(spans, key=lambda span: span.axis)
    piece = tuple(span.count for span in ordered)
    plan_shape = []
    for entry in index.entries:
        if isinstance(entry, Span):
            plan_shape.append(entry.count)
        elif not isinstance(entry, Position):
            plan_shape.append(1)
    new = lax.reshape(broadcast_to(y, tuple(plan_shape)), piece)
    if 0 in piece:
        return x
    if operation != "set":
        new = _combined(operation, slice_spans(x, ordered), new)
    if all(span.whole for span in ordered):
        return new
    return lax.dynamic_update_slice(x, new, [np.int32(span.start) for span in ordered])


def _combined(operation: str, old: Array, new: Array) -> Array:
    if old.dtype == np.bool_ and operation in ("add", "multiply"):
        return lax.bitwise_or(old, new) if operation == "add" else lax.bitwise_and(old, new)
    return _COMBINE[operation](old, new)


# --------------------------------------------------------------------------- apply


def scatter_apply(
    x: Array,
    index: Any,
    func: Callable[[Array], Array],
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
    out_sharding: Any = None,
    wrap_negative_indices: bool = True,
) -> Array:
    """Apply a function of one scalar to the elements at an index."""
    parsed = parse_index(index, x.shape)
    work = x if x.shape == parsed.shape else lax.reshape(x, parsed.shape)

    def same_dtype(element: Array) -> Array:
        return convert(to_array(func(element)), x.dtype)

    plan = plan_index(parsed, wrap_negative=wrap_negative_indices)
    if 0 in plan.shape:
        return x
    chosen = gather_mode(mode)
    result = lax.scatter_apply(
        work,
        plan.start_indices,
        same_dtype,
        _numbers(plan),
        update_shape=plan.shape,
        indices_are_sorted=indices_are_sorted or plan.single,
        unique_indices=unique_indices or plan.single,
        mode=Mode.FILL_OR_DROP if chosen is None else chosen,
    )
    result = lax.reshape(result, x.shape) if result.shape != x.shape else result
    return result if out_sharding is None else lax.with_sharding_constraint(result, out_sharding)
