"""Conversions: dtypes, bits, precision, parts of complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from tetrax import dtypes, errors, tree
from tetrax.ir import kernel, scalar
from tetrax.ir.layout import FactorsBuilder, pointwise
from tetrax.ir.types import ShapedArray
from tetrax.ir.views import View, element_type, is_complex
from tetrax.ops.base import (
    ANY,
    COMPLEX,
    FLOATS,
    REGISTRY,
    Elementwise,
    TestFacts,
    always_bool,
    dtype_kind,
    real_dtype,
    register,
)
from tetrax.ops.structure import move_axis, zeros
from tetrax.runtime.array import as_value
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.symbolic import Zero, is_undefined
from tetrax.tracing.value import Value, get_aval


class ConvertElementType(Primitive):
    """The same values in another dtype; floats to integers truncate and saturate, NaN gives 0."""

    def factors(self, avals, outs, params):
        return pointwise(avals, outs)

    def shape(self, x, *, new_dtype, weak_type, sharding=None):
        return ShapedArray(x.shape, new_dtype, weak_type)

    def reference(self, x, *, new_dtype, weak_type, sharding=None):
        return converted(x, new_dtype)

    def jvp(self, primals, tangents, *, new_dtype, weak_type, sharding=None):
        params = {"new_dtype": new_dtype, "weak_type": weak_type, "sharding": sharding}
        out = self.bind(*primals, **params)
        tangent = tangents[0]
        if type(tangent) is Zero or dtype_kind(new_dtype) not in "fc":
            return out, Zero.from_primal_value(out)
        return out, self.bind(tangent, **params)

    def transpose(self, ct, x, *, new_dtype, weak_type, sharding=None):
        if type(ct) is Zero:
            return [Zero(x.aval)]
        return [convert_element_type(ct, x.aval.dtype, x.aval.weak_type)]

    def batch(self, operands, dims, **params):
        return self.bind(*operands, **params), dims[0]

    def kernel(self, operands, outs, *, new_dtype, weak_type, sharding=None):
        (x,) = operands
        target, to_complex = element_type(new_dtype), is_complex(new_dtype)

        def at(index: Any) -> scalar.Scalar:
            return scalar.convert(x.at(index), target, to_complex)

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context, operands, outs, *, new_dtype, weak_type, sharding=None):
        return context.convert(operands, outs)


def converted(x: np.ndarray, dtype: Any) -> np.ndarray:
    """`x.astype(dtype)` with XLA's meaning where C leaves it open."""
    source, target = dtype_kind(x.dtype), dtype_kind(dtype)
    if source == "c" and target not in "cb":
        x, source = np.real(x), "f"
    if source == "f" and target in "iu":
        return _float_to_int(x, dtype)
    if target == "b":
        return x != 0
    return x.astype(dtype)


def _float_to_int(x: np.ndarray, dtype: Any) -> np.ndarray:
    info = dtypes.iinfo(dtype)
    wide = x.astype(np.float64)
    low, high = float(info.min), float(info.max)
    inside = np.where(np.isnan(wide), 0.0, np.clip(wide, low, high))
    if info.bits < 64:
        return inside.astype(np.int64).astype(dtype)
    # float(max) rounds up to a power of two, which does not fit: saturate by hand.
    over = inside >= high
    return np.where(over, info.max, np.where(over, 0.0, inside).astype(dtype)).astype(dtype)


_CONVERT_DTYPES = (np.bool_, np.int8, np.int32, np.uint16, np.float32, np.complex64)


def _convert_samples() -> list[tuple[list[ShapedArray], dict]]:
    names = (*_CONVERT_DTYPES, dtypes.bfloat16, np.float16)
    return [
        ([ShapedArray((3, 4), a)], {"new_dtype": np.dtype(b), "weak_type": False, "sharding": None})
        for a in names
        for b in names
    ]


convert_element_type_p = register(
    ConvertElementType("convert_element_type"),
    TestFacts(
        ulp=0,
        samples=_convert_samples,
        excluded=(("jvp", "the samples end in narrow dtypes, where differences of 1e-6 vanish"),),
    ),
)


class BitcastConvertType(Primitive):
    """The same bits as another dtype; a width change adds or removes a last axis."""

    def shape(self, x, *, new_dtype):
        old, new = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
        if is_complex(x.dtype) != is_complex(new_dtype):
            raise errors.ShapeError(
                "bitcast_convert_type does not convert between complex and real dtypes: "
                f"{x.dtype.name} to {new_dtype.name}"
            )
        if old == new:
            shape = x.shape
        elif old > new:
            shape = (*x.shape, old // new)
        else:
            if not x.shape or x.shape[-1] != new // old:
                raise errors.ShapeError(
                    f"Attempting to convert array of shape {x.shape} from {x.dtype.name} of size "
                    f"{old} bits to {new_dtype.name} of size {new} bits, but the last axis must "
                    "have "
                    f"size {new // old}"
                )
            shape = x.shape[:-1]
        return ShapedArray(shape, new_dtype)

    def factors(self, avals, outs, params):
        # A change of width adds or removes a last axis.
        ranks = avals[0].ndim, outs[0].ndim
        build = FactorsBuilder()
        shared = build.axes(avals[0].shape[: min(ranks)])
        rest = [build.axes(aval.shape[min(ranks) :], (0,)) for aval in (avals[0], outs[0])]
        return build.build([[*shared, *rest[0]]], [[*shared, *rest[1]]])

    def reference(self, x, *, new_dtype):
        x = np.ascontiguousarray(x).reshape(x.shape)  # which makes 0-d arrays 1-d
        old, new = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
        if old < 8 or new < 8:
            return _bitcast_narrow(x, new_dtype, old, new)
        if old == new:
            return x.view(new_dtype)
        if old > new:
            return x.reshape(*x.shape, 1).view(new_dtype)
        return x.view(new_dtype).reshape(x.shape[:-1])

    def jvp(self, primals, tangents, *, new_dtype):
        out = self.bind(*primals, new_dtype=new_dtype)
        return out, Zero.from_primal_value(out)

    def batch(self, operands, dims, *, new_dtype):
        (x,), (dim,) = operands, dims
        if dim == get_aval(x).ndim - 1:
            return self.bind(move_axis(x, dim, 0), new_dtype=new_dtype), 0
        return self.bind(x, new_dtype=new_dtype), dim

    def kernel(self, operands, outs, *, new_dtype):
        (x,) = operands
        old, new = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
        target = element_type(new_dtype)

        def at(index: Any) -> scalar.Scalar:
            if old == new:
                value = x.at(index)
                if isinstance(value, scalar.Complex):
                    return value
                return _bits_to(value, target)
            if old > new:
                return _narrow_part(x.at(index[:-1]), index[-1], target, new)
            return _joined_parts(x, index, target, old, new // old)

        return View(outs[0].shape, outs[0].dtype, at)

    def stablehlo(self, context, operands, outs, *, new_dtype):
        return context.op("bitcast_convert", operands, outs)


def _bits_to(value: Any, target: Any) -> Any:
    if value.type.is_bool or target.is_bool:
        return kernel.convert(value, target)
    return kernel.bitcast(value, target)


def _narrow_part(value: Any, position: Any, target: Any, width: int) -> Any:
    """Bits `position * width ...` of a wide scalar."""
    bits = kernel.bits_of(value)
    amount = kernel.convert(kernel.mul(position, kernel.index(width)), bits.type)
    part = kernel.convert(kernel.shr_logical(bits, amount), _unsigned_of_width(width))
    return _bits_to(part, target)


def _joined_parts(x: View, index: Any, target: Any, width: int, count: int) -> Any:
    """A wide scalar from `count` neighbours, the first in the lowest bits."""
    wide = _unsigned_of_width(width * count)
    total = kernel.const(0, wide)
    for position in range(count):
        part = kernel.bits_of(x.at((*index, kernel.index(position))))
        grown = kernel.shl(kernel.convert(part, wide), kernel.const(width * position, wide))
        total = kernel.bit_or(total, grown)
    return _bits_to(total, target)


def _unsigned_of_width(width: int) -> Any:
    return element_type(_NARROW.get(width) or np.dtype(f"uint{width}"))


_NARROW = {2: np.dtype(dtypes.uint2), 4: np.dtype(dtypes.uint4)}


def _bitcast_narrow(x: np.ndarray, new_dtype: Any, old: int, new: int) -> np.ndarray:
    """Bit casts that involve types narrower than a byte, element by element."""
    bits = x.astype(np.int64) & ((1 << old) - 1) if old < 8 else x.view(np.uint8).astype(np.int64)
    if old > new:
        parts = [(bits >> (new * i)) & ((1 << new) - 1) for i in range(old // new)]
        bits = np.stack(parts, -1)
    elif old < new:
        weights = 1 << (old * np.arange(new // old))
        bits = (bits * weights).sum(-1)
    if new >= 8:
        return bits.astype(np.uint8).view(new_dtype)
    signed = np.where(bits >= 1 << (new - 1), bits - (1 << new), bits)
    return (signed if dtype_kind(new_dtype) == "i" else bits).astype(new_dtype)


def _bitcast_samples() -> list[tuple[list[ShapedArray], dict]]:
    pairs = ((np.float32, np.int32), (np.int32, np.uint8), (np.uint16, np.int16))
    samples = [([ShapedArray((3, 4), a)], {"new_dtype": np.dtype(b)}) for a, b in pairs]
    return [*samples, ([ShapedArray((3, 4), np.uint8)], {"new_dtype": np.dtype(np.float32)})]


bitcast_convert_type_p = register(
    BitcastConvertType("bitcast_convert_type"), TestFacts(ulp=0, samples=_bitcast_samples)
)


def _reduce_precision_scalar(x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    """Round the significand to nearest even, then flush and overflow like the narrow format."""
    width = x.type.bits
    full_mantissa, full_exponent = (23, 8) if width == 32 else (52, 11)
    bits = kernel.bits_of(x)
    constant = lambda value: kernel.const(value, bits.type)
    sign = kernel.bit_and(bits, constant(1 << (width - 1)))
    body = kernel.bit_and(bits, constant((1 << (width - 1)) - 1))
    drop = full_mantissa - mantissa_bits
    if drop > 0:
        odd = kernel.bit_and(kernel.shr_logical(body, constant(drop)), constant(1))
        body = kernel.add(body, kernel.add(constant((1 << (drop - 1)) - 1), odd))
        body = kernel.bit_and(body, constant(~((1 << drop) - 1) & ((1 << width) - 1)))
    if exponent_bits < full_exponent:
        bias, reduced = (1 << (full_exponent - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        infinity = ((1 << full_exponent) - 1) << full_mantissa
        largest = (bias + reduced + 1) << full_mantissa
        smallest = (bias - reduced + 1) << full_mantissa
        body = kernel.select(kernel.ge(body, constant(largest)), constant(infinity), body)
        body = kernel.select(kernel.lt(body, constant(smallest)), constant(0), body)
    rounded = kernel.bitcast(kernel.bit_or(sign, body), x.type)
    return kernel.select(kernel.ne(x, x), x, rounded)


def _reduce_precision_reference(
    x: np.ndarray, *, exponent_bits: int, mantissa_bits: int
) -> np.ndarray:
    if x.dtype.itemsize == 2:
        wide = x.astype(np.float32)
        return _reduce_precision_reference(
            wide, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits
        ).astype(x.dtype)
    width = x.dtype.itemsize * 8
    full_mantissa, full_exponent = (23, 8) if width == 32 else (52, 11)
    unsigned = np.dtype(f"u{x.dtype.itemsize}").type
    bits = x.view(unsigned)
    sign, body = bits & unsigned(1 << (width - 1)), bits & unsigned((1 << (width - 1)) - 1)
    drop = full_mantissa - mantissa_bits
    if drop > 0:
        odd = (body >> unsigned(drop)) & unsigned(1)
        body = body + unsigned((1 << (drop - 1)) - 1) + odd
        body = body & unsigned(~((1 << drop) - 1) & ((1 << width) - 1))
    if exponent_bits < full_exponent:
        bias, reduced = (1 << (full_exponent - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        infinity = unsigned(((1 << full_exponent) - 1) << full_mantissa)
        body = np.where(body >= unsigned((bias + reduced + 1) << full_mantissa), infinity, body)
        body = np.where(body < unsigned((bias - reduced + 1) << full_mantissa), unsigned(0), body)
    rounded = (sign | body.astype(unsigned)).view(x.dtype)
    return np.where(np.isnan(x), x, rounded)


reduce_precision_p = Elementwise(
    "reduce_precision",
    1,
    accepts=FLOATS,
    scalar=_reduce_precision_scalar,
    reference=_reduce_precision_reference,
    derivative=(lambda t, out, x, **params: reduce_precision_p(t, **params),),
    transpose=lambda ct, x, **params: [
        ct if type(ct) is Zero else reduce_precision_p(ct, **params)
    ],
    stablehlo=lambda context, operands, outs, exponent_bits, mantissa_bits: context.op(
        "reduce_precision",
        operands,
        outs,
        exponent_bits=context.i32(exponent_bits),
        mantissa_bits=context.i32(mantissa_bits),
    ),
    facts=TestFacts(
        ulp=0,
        excluded=(("jvp", "it rounds: differences of 1e-6 vanish"),),
        samples=lambda: [
            ([ShapedArray((3, 4), np.float32)], {"exponent_bits": e, "mantissa_bits": m})
            for e, m in ((5, 10), (8, 7), (8, 23))
        ],
    ),
)


# -- complex numbers -----------------------------------------------------------------------------


def complex_dtype(dtype: Any) -> Any:
    return np.dtype(np.complex64 if dtype.itemsize == 4 else np.complex128)


def _part(index: int) -> Any:
    def part(x: scalar.Scalar) -> scalar.Scalar:
        assert isinstance(x, scalar.Complex)
        return x.im if index else x.re

    return part


real_p = Elementwise(
    "real",
    1,
    accepts=COMPLEX,
    scalar=_part(0),
    reference=np.real,
    derivative=(lambda t, out, x: real_p(t),),
    transpose=lambda ct, x: [ct if type(ct) is Zero else complex_p(ct, _zeros_of(ct))],
    result=real_dtype,
    stablehlo="real",
    cost=0,
)

imag_p = Elementwise(
    "imag",
    1,
    accepts=COMPLEX,
    scalar=_part(1),
    reference=np.imag,
    derivative=(lambda t, out, x: imag_p(t),),
    # The transpose of Im is taken over the complex numbers: ct goes to -i ct.
    transpose=lambda ct, x: [ct if type(ct) is Zero else complex_p(_zeros_of(ct), _negated(ct))],
    result=real_dtype,
    stablehlo="imag",
    cost=0,
)


def _complex_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    undefined = [is_undefined(v) for v in (x, y)]
    if type(ct) is Zero:
        return [Zero(v.aval) if u else None for v, u in zip((x, y), undefined, strict=True)]
    return [real_p(ct) if undefined[0] else None, _negated(imag_p(ct)) if undefined[1] else None]


def _join_parts(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    out = np.empty(x.shape, complex_dtype(x.dtype))
    out.real, out.imag = x, y
    return out


complex_p = Elementwise(
    "complex",
    2,
    accepts=FLOATS,
    scalar=scalar.Complex,
    reference=_join_parts,
    derivative=(
        lambda t, out, x, y: complex_p(t, _zeros_of(t)),
        lambda t, out, x, y: complex_p(_zeros_of(t), t),
    ),
    transpose=_complex_transpose,
    result=complex_dtype,
    stablehlo="complex",
    widen=False,
    cost=0,
    facts=TestFacts(
        samples=lambda: [([ShapedArray((3, 4), t)] * 2, {}) for t in (np.float32, np.float64)]
    ),
)


def _conj_transpose(ct: Any, x: Any, *, input_dtype: Any) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(x.aval)]
    if dtype_kind(x.aval.dtype) == "c":
        return [conj_p(ct, input_dtype=input_dtype)]
    return [real_p(ct)]


conj_p = Elementwise(
    "conj",
    1,
    accepts=FLOATS + COMPLEX,
    scalar=lambda x, input_dtype: (
        scalar.conj(x)
        if isinstance(x, scalar.Complex)
        else scalar.Complex(x, kernel.const(0, x.type))
    ),
    reference=lambda x, input_dtype: np.conj(x).astype(
        x.dtype if x.dtype.kind == "c" else complex_dtype(x.dtype)
    ),
    derivative=(lambda t, out, x, input_dtype: conj_p(t, input_dtype=input_dtype),),
    transpose=_conj_transpose,
    result=lambda dtype: dtype if dtype.kind == "c" else complex_dtype(dtype),
    stablehlo=lambda context, operands, outs, input_dtype: context.conj(operands, outs),
    cost=0,
    facts=TestFacts(
        samples=lambda: [
            ([ShapedArray((3, 4), np.complex64)], {"input_dtype": np.dtype(np.complex64)})
        ]
    ),
)

is_finite_p = Elementwise(
    "is_finite",
    1,
    accepts=FLOATS,
    scalar=kernel.is_finite,
    reference=np.isfinite,
    result=always_bool,
    stablehlo="is_finite",
    facts=TestFacts(ulp=0),
)

copy_p = Elementwise(
    "copy",
    1,
    accepts=ANY + "k",
    scalar=lambda x: x,
    reference=np.copy,
    derivative=(lambda t, out, x: copy_p(t),),
    transpose=lambda ct, x: [ct if type(ct) is Zero else copy_p(ct)],
    stablehlo=lambda context, operands, outs: list(operands),
    widen=False,
    cost=0,
)


def _zeros_of(x: Any) -> Any:
    return zeros(get_aval(x))


def _negated(x: Any) -> Any:
    # `neg` lives above this file (its family needs conversions), hence the registry.
    return REGISTRY["neg"].bind(x)


stop_gradient_p = Elementwise(
    "stop_gradient",
    1,
    accepts=FLOATS + COMPLEX,
    scalar=lambda x: x,
    reference=np.copy,
    stablehlo=lambda context, operands, outs: list(operands),
    widen=False,
    cost=0,
    facts=TestFacts(ulp=0, excluded=(("jvp", "its derivative is zero by definition"),)),
)


# -- functions -----------------------------------------------------------------------------------


def convert_element_type(operand: Any, new_dtype: Any, weak_type: bool = False) -> Any:
    """`operand` with elements of `new_dtype`; floats to integers truncate and saturate.

    64-bit dtypes become 32-bit unless x64 is enabled.

    >>> convert_element_type(1.7, "int32")
    Array(1, dtype=int32)
    """
    operand = as_value(operand) if not isinstance(operand, Value) else operand
    aval = operand.aval
    if new_dtype is None:
        new_dtype = aval.dtype
    weak = weak_type
    if isinstance(new_dtype, type) and new_dtype in dtypes.PYTHON_SCALARS:
        weak = True
    target = dtypes.canonicalize_dtype(dtypes.numpy_dtype(new_dtype), allow_extended_dtype=True)
    if aval.dtype == target and aval.weak_type == weak:
        return operand
    extended = [isinstance(d, dtypes.ExtendedDType) for d in (aval.dtype, target)]
    if any(extended) and aval.dtype != target:
        raise ValueError(
            f"Cannot convert_element_type from {aval.dtype.name} to {target.name}: keys are not "
            "numbers; use random.key_data and random.wrap_key_data"
        )
    return convert_element_type_p.bind(
        operand, new_dtype=target, weak_type=bool(weak), sharding=None
    )


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """The bits of `operand` seen as `new_dtype`; a narrower dtype adds a last axis."""
    target = dtypes.canonicalize_dtype(dtypes.numpy_dtype(new_dtype))
    return bitcast_convert_type_p.bind(as_value(operand), new_dtype=target)


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Elements rounded to a format with so many bits, kept in the operand's dtype."""
    return reduce_precision_p(
        operand, exponent_bits=int(exponent_bits), mantissa_bits=int(mantissa_bits)
    )


def real(x: Any) -> Any:
    """Real parts of complex numbers."""
    return real_p(x)


def imag(x: Any) -> Any:
    """Imaginary parts of complex numbers."""
    return imag_p(x)


def complex(x: Any, y: Any) -> Any:
    """x + i y of real x, y."""
    return complex_p(x, y)


def conj(x: Any) -> Any:
    """Complex conjugates."""
    return conj_p(x, input_dtype=get_aval(x).dtype)


def is_finite(x: Any) -> Any:
    """Whether elements are neither infinite nor NaN."""
    return is_finite_p(x)


def stop_gradient(x: Any) -> Any:
    """The tree `x` itself, treated as a constant by differentiation.

    >>> stop_gradient(2.0)
    Array(2., dtype=float32, weak_type=True)
    """

    def one(leaf: Any) -> Any:
        value = as_value(leaf)
        return stop_gradient_p.bind(value) if dtype_kind(value.aval.dtype) in "fc" else leaf

    return tree.map(one, x)
