"""Narrow floats against ml_dtypes and NumPy: every pattern read, every neighbourhood of a rounding
border written.
"""

from __future__ import annotations

import pytest
from tests.kernel.conftest import call_kernel

import numpy as np
from tetrax.compiler.cpu.conversions import FORMATS, narrow, widen
from tetrax.ir import kernel as k
from tetrax.ir.kernel_types import F8E8M0FNU, STORAGE_TYPES

NAMES = [t.name for t in STORAGE_TYPES]


def convert_all(values, source, to, rule=None):
    """Convert an array by a kernel."""
    size = len(values)
    x, y = k.Buffer("x", source, size), k.Buffer("y", to, size, "out")
    i = k.index_variable("i", size)
    loaded = k.load(x, i)
    value = k.convert(loaded, to) if rule is None else rule(loaded)
    out = np.zeros(size, to.dtype)
    call_kernel(k.Kernel("convert", (x, y), (), k.loop(i, size, k.store(y, i, value))), values, out)
    return out


def patterns(type):
    bits = np.arange(1 << type.bits, dtype=np.uint16 if type.bits == 16 else np.uint8)
    return bits.view(type.dtype)


def bits_of(array):
    return array.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.itemsize])


def borders(type):
    """f64 values at, and one f64 step either side of, every value of a format and every
    midpoint.
    """
    with np.errstate(all="ignore"):
        values = patterns(type).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    middles = (values[1:] + values[:-1]) / 2
    ends = np.array([values[-1] * f for f in (1.01, 1.06, 1.1, 1.2, 1.25, 1.5, 2.0, 4.0, 1e9)])
    centre = np.concatenate([values, middles, ends, -ends, [0.0, -0.0, np.inf, -np.inf, np.nan]])
    return np.concatenate([centre, np.nextafter(centre, np.inf), np.nextafter(centre, -np.inf)])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("written_out", [False, True])
def test_reading_is_exact(name, written_out):
    type = k.scalar_type(next(t.dtype for t in STORAGE_TYPES if t.name == name))
    values = patterns(type)
    with np.errstate(all="ignore"):
        expected = values.astype(np.float32)
    actual = convert_all(values, type, k.F32, widen if written_out else None)
    np.testing.assert_array_equal(actual, expected)
    real = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual[real]), np.signbit(expected[real]))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("written_out", [False, True])
def test_writing_f32_rounds_like_ml_dtypes(name, written_out):
    type = next(t for t in STORAGE_TYPES if t.name == name)
    with np.errstate(all="ignore"):
        values = borders(type).astype(np.float32)
        random = np.random.default_rng(0).integers(0, 1 << 32, 20000, dtype=np.uint32)
        values = np.concatenate([values, random.view(np.float32)])
        expected = values.astype(type.dtype)
    actual = convert_all(values, k.F32, type, (lambda v: narrow(v, type)) if written_out else None)
    check_same(actual, expected, values)


def check_same(actual, expected, values):
    """Same bits; NaNs only need to be NaNs."""
    same = bits_of(actual) == bits_of(expected)
    with np.errstate(all="ignore"):
        both_nan = np.isnan(actual.astype(np.float32)) & np.isnan(expected.astype(np.float32))
    wrong = ~(same | both_nan)
    assert not wrong.any(), [
        (float(v), hex(int(a)), hex(int(e)))
        for v, a, e in zip(
            values[wrong][:8], bits_of(actual)[wrong], bits_of(expected)[wrong], strict=False
        )
    ]


def nearest_even(value, form):
    """The bits of a format nearest to an exact rational, computed in integers (values in range
    only).
    """
    magnitude = abs(value)
    if magnitude == 0:
        return 0
    exponent = max(np.frexp(float(magnitude))[1] - 1, 1 - form.bias)
    step = 2.0 ** (exponent - form.mantissa)
    quotient = magnitude / step  # exact: the step is a power of two
    low = int(np.floor(quotient))
    rest = quotient - low
    units = low + (rest > 0.5 or (rest == 0.5 and low % 2 == 1))
    if exponent == 1 - form.bias:
        return units
    return ((exponent + form.bias - 1) << form.mantissa) + units


@pytest.mark.parametrize("name", [n for n in NAMES if n != "f8e8m0fnu"])
def test_writing_f64_rounds_once(name):
    type = next(t for t in STORAGE_TYPES if t.name == name)
    form = FORMATS[type]
    values = borders(type)
    with np.errstate(all="ignore"):
        largest = float(
            np.array(form.largest, dtype=f"u{type.bytes}").view(type.dtype).astype("f8")
        )
    values = values[np.isfinite(values) & (np.abs(values) <= largest)]
    actual = convert_all(values, k.F64, type)
    magnitude = bits_of(actual) & (form.sign - 1)
    expected = np.array([nearest_even(v, form) for v in values])
    np.testing.assert_array_equal(magnitude, expected)


def test_writing_wide_integers_rounds_once():
    # 2^40 + 2^32 is a midpoint of two bf16 values; one more must round up, through f32 it would not
    values = np.array(
        [2**40 + 2**32, 2**40 + 2**32 + 1, 2**62 + 2**54 + 1, -(2**62 + 2**54 + 1), 3]
    )
    actual = convert_all(values, k.I64, next(t for t in STORAGE_TYPES if t.name == "bf16"))
    expected = [2**40, 2**40 + 2**33, 2**62 + 2**55, -(2**62 + 2**55), 3]
    np.testing.assert_array_equal(actual.astype(np.float64), expected)


def test_exponent_only_format_covers_its_range():
    values = np.array([2.0**-127, 2.0**-126, 1.0, 2.0**127, np.nan], np.float32)
    actual = convert_all(values, k.F32, F8E8M0FNU)
    np.testing.assert_array_equal(bits_of(actual), [0, 1, 127, 254, 255])


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_narrow_integers_keep_their_values(dtype):
    type = next(t for t in k.INTEGER_TYPES if t.dtype.name == dtype)
    values = np.arange(type.minimum, type.maximum + 1).astype(type.dtype)
    np.testing.assert_array_equal(
        convert_all(values, type, k.I32), np.arange(type.minimum, type.maximum + 1)
    )
    wrapped = convert_all(np.arange(-20, 20, dtype=np.int32), k.I32, type)
    expected = np.array([k.const(v, type).data for v in range(-20, 20)])
    np.testing.assert_array_equal(wrapped.astype(np.int32), expected)
