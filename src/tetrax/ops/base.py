"""Kinds of operations: what most operations need not say for themselves.

`Elementwise` is one row of a family table: name, dtypes, derivative, scalar kernel, StableHLO
mnemonic and NumPy reference are all it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from tetrax import dtypes, errors
from tetrax.ir import scalar
from tetrax.ir.kernel_types import BOOL, F32
from tetrax.ir.layout import Factors, pointwise
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import View, element_type, is_complex
from tetrax.ops.structure import (
    batch_at,
    broadcast_in_dim,
    broadcast_in_dim_p,
    instantiate,
    reduce_sum_p,
    reshape_p,
    transpose_p,
)
from tetrax.runtime.array import Array, as_value, wrap
from tetrax.tracing.primitive import Primitive, rule
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.trace import EVAL_TRACE, state
from tetrax.tracing.value import Value, get_aval

REGISTRY: dict[str, Primitive] = {}
"""Every first-order operation by name; the generated tests run over it."""

BOOLS, INTS, UINTS, FLOATS, COMPLEX, KEYS = "b", "i", "u", "f", "c", "k"
NUMBERS = INTS + UINTS + FLOATS + COMPLEX
REALS = INTS + UINTS + FLOATS
ANY = BOOLS + NUMBERS


def dtype_kind(dtype: Any) -> str:
    """One of b, i, u, f, c; k for typed keys, 0 for float0."""
    if dtype == dtypes.float0:
        return "0"
    if isinstance(dtype, dtypes.ExtendedDType):
        return "k"
    if dtype.kind in "biufc":
        return dtype.kind
    for kind, parent in (("f", np.floating), ("i", np.signedinteger), ("u", np.unsignedinteger)):
        if dtypes.issubdtype(dtype, parent):
            return kind
    return "?"


@dataclass(frozen=True)
class TestFacts:
    """What the generated tests must know: operand ranges, tolerances, exclusions with reasons."""

    __test__ = False

    # Interval of sample values per operand, or one for all.
    domain: tuple[float, float] | tuple[tuple[float, float], ...] = (-3.0, 3.0)
    # Units in the last place that compiled code may differ from the reference.
    ulp: int = 4
    # rule -> reason why it is not tested. The rule "unsupported" names the beginning of an error
    # that some samples must raise instead.
    excluded: tuple[tuple[str, str], ...] = ()
    # Units in the last place between the eager value and JAX's, where JAX's own error needs more.
    jax_ulp: int | None = None
    # For operations with parameters: () -> list of (operand avals, params).
    samples: Callable[[], list[tuple[list[ShapedArray], dict]]] | None = None


def register(primitive: Primitive, facts: TestFacts | None = None) -> Any:
    """Enter an operation in the registry, for tests and the parser."""
    primitive.facts = facts or TestFacts()  # type: ignore[attr-defined]
    REGISTRY[primitive.name] = primitive
    return primitive


_MATRIX = ShapedArray((3, 4), np.float32)
register(
    broadcast_in_dim_p,
    TestFacts(
        ulp=0,
        samples=lambda: [
            ([_MATRIX], {"shape": (2, 3, 4), "broadcast_dimensions": (1, 2), "sharding": None}),
            (
                [ShapedArray((3, 1), np.int32)],
                {"shape": (3, 5), "broadcast_dimensions": (0, 1), "sharding": None},
            ),
        ],
    ),
)
register(transpose_p, TestFacts(ulp=0, samples=lambda: [([_MATRIX], {"permutation": (1, 0)})]))
register(
    reshape_p,
    TestFacts(
        ulp=0,
        samples=lambda: [([_MATRIX], {"new_sizes": (2, 6), "dimensions": None, "sharding": None})],
    ),
)
register(
    reduce_sum_p,
    TestFacts(
        samples=lambda: [
            ([ShapedArray((3, 4), t)], {"axes": axes, "out_sharding": None})
            for t in (np.float32, np.int32, np.complex64)
            for axes in ((0,), (1,), (0, 1))
        ]
    ),
)


Derivative = Callable[..., Any]


class Elementwise(Primitive):
    """An operation applied to each element.

    `derivative` holds, per operand, a function `(tangent, result, *operands) -> tangent`, or None
    where the derivative is zero; `None` for all says that no operand has one. `linear` says which
    operands the operation is linear in, through `transpose_rule(ct, *operands)`.
    """

    def __init__(
        self,
        name: str,
        arity: int,
        *,
        accepts: str,
        scalar: Callable[..., scalar.Scalar],
        reference: Callable[..., Any],
        derivative: Sequence[Derivative | None] | None = None,
        transpose: Callable[..., Sequence[Any]] | None = None,
        result: Callable[[Any], Any] | None = None,
        stablehlo: str | Callable[..., Any] = "",
        widen: bool = True,
        cost: int = 1,
        facts: TestFacts | None = None,
    ) -> None:
        super().__init__(name)
        self.arity = arity
        self.accepts = accepts
        self.scalar = scalar
        self.numpy = reference
        self.derivative = derivative
        self.result = result
        self.mnemonic = stablehlo
        self.widen = widen
        self.cost = cost
        if transpose is not None:
            self.transpose = transpose  # type: ignore[method-assign]
        register(self, facts)

    # -- calling -------------------------------------------------------------------------------

    def __call__(self, *operands: Any, **params: Any) -> Any:
        """Apply to operands of one shape and dtype; scalars are broadcast, numbers converted."""
        first = operands[0]
        if isinstance(first, Value):
            aval = first.aval
            for other in operands[1:]:
                if not isinstance(other, Value):
                    break
                found = other.aval
                if found.shape != aval.shape or found.dtype is not aval.dtype:
                    break
            else:
                return self.bind(*operands, **params)
        if len(operands) == 2 and state.trace is EVAL_TRACE:
            pair = _with_number_spread(*operands)
            if pair is not None:
                return self.bind(*pair, **params)
        return self.bind(*matched(self.name, operands), **params)

    # -- rules ---------------------------------------------------------------------------------

    @rule
    def shape(self, *avals: ShapedArray, **params: Any) -> ShapedArray:
        first = avals[0]
        dtype = first.dtype
        if dtype_kind(dtype) not in self.accepts:
            raise errors.ShapeError(
                f"{self.name} does not accept dtype {dtype.name}. {_accepted(self.accepts)}"
            )
        weak = first.weak_type
        for other in avals[1:]:
            if other.shape != first.shape or other.dtype != dtype:
                raise _mismatch(self.name, avals)
            weak = weak and other.weak_type
        out = dtype if self.result is None else self.result(dtype)
        return ShapedArray(first.shape, out, weak)

    def factors(
        self, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], params: dict
    ) -> Factors:
        return pointwise(avals, outs)

    def reference(self, *arrays: np.ndarray, **params: Any) -> Any:
        return self.numpy(*arrays, **params)

    def prepared(self, avals: Sequence[ShapedArray], params: dict) -> Callable[..., Any]:
        function = self.reference if "reference" in vars(self) else self.numpy
        return partial(function, **params) if params else function

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = self.bind(*primals, **params)
        total: Any = None
        if self.derivative is not None:
            for rule, tangent in zip(self.derivative, tangents, strict=True):
                if rule is None or type(tangent) is Zero:
                    continue
                term = rule(tangent, out, *primals, **params)
                if type(term) is Zero:
                    continue
                total = term if total is None else add_tangents(total, term)
        return out, Zero.from_primal_value(out) if total is None else total

    def batch(self, operands: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        return self.bind(*aligned_batch(operands, dims)[0], **params), 0

    @rule
    def kernel(self, operands: Sequence[View], outs: Sequence[ShapedArray], **params: Any) -> View:
        narrow = self.widen and any(view.scalar.is_storage for view in operands)
        target, to_complex = element_type(outs[0].dtype), is_complex(outs[0].dtype)

        def at(index: Any) -> scalar.Scalar:
            values = [view.at(index) for view in operands]
            if narrow:
                values = [
                    scalar.convert(v, F32) if view.scalar.is_storage else v
                    for v, view in zip(values, operands, strict=True)
                ]
            value = self.scalar(*values, **params)
            if value.type is not target and value.type is not BOOL and not to_complex:
                value = scalar.convert(value, target)
            return value

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context: Any, operands: Any, outs: Any, **params: Any) -> Any:
        if callable(self.mnemonic):
            return self.mnemonic(context, operands, outs, **params)
        if not self.mnemonic:
            raise self.missing("stablehlo")
        return context.op(self.mnemonic, operands, outs)


def _accepted(kinds: str) -> str:
    names = {"b": "bool", "i": "signed integers", "u": "unsigned integers", "f": "floats"}
    names |= {"c": "complex numbers", "k": "random keys"}
    words = [names[kind] for kind in kinds]
    return "Accepted dtypes are " + ", ".join(words)


def _mismatch(name: str, avals: Sequence[ShapedArray]) -> errors.ShapeError:
    dtypes_differ = any(a.dtype != avals[0].dtype for a in avals)
    if dtypes_differ:
        shown = ", ".join(a.dtype.name for a in avals)
        return errors.ShapeError(
            f"lax.{name} requires arguments to have equal dtypes, got {shown}. "
            "(Tip: tetrax.numpy functions promote dtypes; lax functions do not)"
        )
    shown = ", ".join(str(a.shape) for a in avals)
    return errors.ShapeError(
        f"{name} got incompatible shapes for broadcasting: {shown}. "
        "lax functions need equal shapes; tetrax.numpy functions broadcast"
    )


# The kinds of dtype that take a Python number without becoming another.
_TAKERS = {int: "iuf", float: "f"}


def _with_number_spread(x: Any, y: Any) -> tuple[Array, Array] | None:
    """An array and a number as two arrays; the elements of one are all the same in memory."""
    if type(x) is Array and x.aval.dtype.kind in _TAKERS.get(type(y), ""):
        return x, _spread(y, x.aval)
    if type(y) is Array and y.aval.dtype.kind in _TAKERS.get(type(x), ""):
        return _spread(x, y.aval), y
    return None


def _spread(number: Any, aval: ShapedArray) -> Array:
    if type(number) is int:
        as_value(number)  # raises where it does not fit the default integer
    scalar = np.asarray(number).astype(aval.dtype)
    weak = aval if aval.weak_type else ShapedArray(aval.shape, aval.dtype, True)
    if not aval.shape:
        return wrap(scalar, weak)
    return wrap(np.ndarray(aval.shape, aval.dtype, scalar.tobytes(), 0, (0,) * aval.ndim), weak)


def aligned_batch(operands: Sequence[Any], dims: Sequence[Any]) -> tuple[list[Any], int]:
    """Operands of an elementwise operation with their batch axis in front, and its size."""
    size = batch_size(operands, dims)
    return [batch_at(x, dim, size) for x, dim in zip(operands, dims, strict=True)], size


def batch_size(operands: Sequence[Any], dims: Sequence[Any]) -> int:
    """Size of the batch axis of the batched operands."""
    for x, dim in zip(operands, dims, strict=True):
        if dim is not None:
            return get_aval(x).shape[dim]
    raise AssertionError("no operand is batched")


def matched(name: str, operands: Sequence[Any]) -> list[Value]:
    """Operands of one dtype and shape: numbers take the arrays' dtype, scalars are broadcast.

    Raises ShapeError where arrays differ.
    """
    arrays = [x for x in operands if not isinstance(x, bool | int | float | complex)]
    values = [as_value(x) for x in operands]
    if arrays and len(arrays) < len(operands):
        dtype = next(get_aval(x).dtype for x in arrays)
        values = [
            _number(x, value, dtype) if isinstance(x, bool | int | float | complex) else value
            for x, value in zip(operands, values, strict=True)
        ]
    return broadcast_together(name, values)


def broadcast_together(name: str, values: Sequence[Value]) -> list[Value]:
    """Values of one shape: scalars are broadcast, and so are axes of size 1 where ranks are equal.

    Raises ShapeError where shapes differ otherwise.
    """
    shapes = {value.aval.shape for value in values}
    if len(shapes) == 1:
        return list(values)
    ranked = [shape for shape in shapes if shape]
    if len({len(shape) for shape in ranked}) != 1:
        raise _mismatch(name, [value.aval for value in values])
    target = []
    for extents in zip(*ranked, strict=True):
        found = set(extents) - {1}
        if len(found) > 1:
            raise _mismatch(name, [value.aval for value in values])
        target.append(found.pop() if found else 1)
    return [broadcast_in_dim(v, target, range(len(target)) if v.aval.shape else ()) for v in values]


def _number(x: Any, value: Value, dtype: Any) -> Value:
    """A Python number in the dtype of its partner, where that loses nothing but precision."""
    kind, target = dtype_kind(value.aval.dtype), dtype_kind(dtype)
    order = "biufc"
    if target in order and order.index(kind) <= order.index(target):
        return typed_scalar(x, dtype, weak_type=True)
    return value


def typed_scalar(x: Any, dtype: Any, weak_type: bool = False) -> Array:
    """A number as a 0-d array of `dtype`."""
    return wrap(np.asarray(x).astype(dtype), ShapedArray((), dtype, weak_type))


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents, either of which may be a symbolic zero."""
    if type(x) is Zero:
        return y
    if type(y) is Zero:
        return x
    return REGISTRY["add_any"].bind(x, y)


def real_dtype(dtype: Any) -> Any:
    """The dtype of the parts of a complex dtype; real dtypes are kept."""
    if dtype.kind == "c":
        return np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
    return dtype


def always_bool(dtype: Any) -> Any:
    return np.dtype(np.bool_)


__all__ = [
    "ANY",
    "BOOLS",
    "COMPLEX",
    "FLOATS",
    "INTS",
    "KEYS",
    "NUMBERS",
    "REALS",
    "REGISTRY",
    "UINTS",
    "Elementwise",
    "TestFacts",
    "add_tangents",
    "aligned_batch",
    "always_bool",
    "batch_size",
    "dtype_kind",
    "instantiate",
    "matched",
    "real_dtype",
    "register",
    "typed_scalar",
]
