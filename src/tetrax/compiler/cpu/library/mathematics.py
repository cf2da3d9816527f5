"""Scalar routines for arguments that the vector code of a function does not reach, as LLVM text.

- `tetrax_sin_far`, `tetrax_cos_far`, `tetrax_tan_far`: angles from about 2^19 on. They are reduced
  by Payne and Hanek's method: the bits of 2/pi that matter for the exponent, times the mantissa.
- `tetrax_rem`: the exact remainder of a division, by long division of the mantissas.
"""

from __future__ import annotations

from collections.abc import Sequence

from tetrax.compiler.cpu import vector_math_tables as tables
from tetrax.compiler.cpu.llvm_text import float_literal
from tetrax.compiler.cpu.target import Target

MATHEMATICS_SYMBOLS = ("tetrax_sin_far", "tetrax_cos_far", "tetrax_tan_far", "tetrax_rem")

# 2/pi in words of 64 bits, most significant first: enough for the largest exponent
_TWO_OVER_PI = (
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
)
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)


def mathematics_module(target: Target) -> str:
    """The text of all routines here."""
    words = ", ".join(f"i64 {word}" for word in (0, *_TWO_OVER_PI))
    table = f"@two_over_pi = internal constant [{len(_TWO_OVER_PI) + 1} x i64] [{words}]"
    series = _SERIES.replace("$SIN$", _polynomial("s", tables.SIN64))
    series = series.replace("$COS$", _polynomial("c", tables.COS64))
    angle = _ANGLE.replace("$HIGH$", float_literal(_HALF_PI[0]))
    angle = angle.replace("$LOW$", float_literal(_HALF_PI[1]))
    return "\n".join((_DECLARATIONS, table, angle, series, _FAR, _REM))


def _polynomial(name: str, coefficients: Sequence[float]) -> str:
    """Horner's scheme in %z; the value is called after the name."""
    lines = []
    total = float_literal(coefficients[-1])
    for at, coefficient in enumerate(reversed(coefficients[:-1])):
        following = f"%{name}{at}"
        terms = f"double {total}, double %z, double {float_literal(coefficient)}"
        lines.append(f"  {following} = call double @llvm.fma.f64({terms})")
        total = following
    lines.append(f"  %{name} = fadd double {total}, 0.0")
    return "\n".join(lines)


_DECLARATIONS = """
declare double @llvm.fma.f64(double, double, double)
declare double @llvm.fabs.f64(double)
declare double @llvm.copysign.f64(double, double)
declare i192 @llvm.ctlz.i192(i192, i1)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
"""

# (high, low, n) with size = high + low + n pi/2 and |high| <= pi/4. The window of 2/pi begins with
# the bit that stands for two quarter turns: what comes before it makes whole turns. Small sizes,
# as other lanes of a vector may have, give something without meaning.
_ANGLE = """
define internal {double, double, i64} @angle(double %size) nounwind {
  %bits = bitcast double %size to i64
  %exponent = lshr i64 %bits, 52
  %fraction = and i64 %bits, 4503599627370495
  %mantissa = or i64 %fraction, 4503599627370496
  %first0 = sub i64 %exponent, 1013
  %first = call i64 @llvm.smax.i64(i64 %first0, i64 0)
  %word = lshr i64 %first, 6
  %shift = and i64 %first, 63
  %at0 = getelementptr i64, ptr @two_over_pi, i64 %word
  %at1 = getelementptr i64, ptr %at0, i64 1
  %at2 = getelementptr i64, ptr %at0, i64 2
  %at3 = getelementptr i64, ptr %at0, i64 3
  %w0 = load i64, ptr %at0, align 8
  %w1 = load i64, ptr %at1, align 8
  %w2 = load i64, ptr %at2, align 8
  %w3 = load i64, ptr %at3, align 8
  %x0 = zext i64 %w0 to i256
  %x1 = zext i64 %w1 to i256
  %x2 = zext i64 %w2 to i256
  %x3 = zext i64 %w3 to i256
  %y0 = shl i256 %x0, 192
  %y1 = shl i256 %x1, 128
  %y2 = shl i256 %x2, 64
  %y01 = or i256 %y0, %y1
  %y23 = or i256 %y2, %x3
  %joined = or i256 %y01, %y23
  %by = zext i64 %shift to i256
  %moved = shl i256 %joined, %by
  %top = lshr i256 %moved, 64
  %window = trunc i256 %top to i192
  %factor = zext i64 %mantissa to i192
  %turns = mul i192 %factor, %window
  %whole = lshr i192 %turns, 190
  %quarters = trunc i192 %whole to i64
  %part = shl i192 %turns, 2
  %above = icmp slt i192 %part, 0
  %opposite = sub i192 0, %part
  %size192 = select i1 %above, i192 %opposite, i192 %part
  %carry = zext i1 %above to i64
  %n = add i64 %quarters, %carry
  %zeros192 = call i192 @llvm.ctlz.i192(i192 %size192, i1 false)
  %zeros0 = trunc i192 %zeros192 to i64
  %zeros = call i64 @llvm.umin.i64(i64 %zeros0, i64 191)
  %up = zext i64 %zeros to i192
  %normal = shl i192 %size192, %up
  %high192 = lshr i192 %normal, 139
  %high64 = trunc i192 %high192 to i64
  %low192 = lshr i192 %normal, 86
  %low64 = trunc i192 %low192 to i64
  %low53 = and i64 %low64, 9007199254740991
  %power = sub i64 1023, %zeros
  %scale64 = shl i64 %power, 52
  %scale0 = bitcast i64 %scale64 to double
  %minus = fneg double %scale0
  %scale = select i1 %above, double %minus, double %scale0
  %h0 = uitofp i64 %high64 to double
  %l0 = uitofp i64 %low53 to double
  %h1 = fmul double %h0, 0x3CA0000000000000
  %l1 = fmul double %l0, 0x3950000000000000
  %h = fmul double %h1, %scale
  %l = fmul double %l1, %scale
  %p = fmul double %h, $HIGH$
  %np = fneg double %p
  %e0 = call double @llvm.fma.f64(double %h, double $HIGH$, double %np)
  %e1 = call double @llvm.fma.f64(double %h, double $LOW$, double %e0)
  %e2 = call double @llvm.fma.f64(double %l, double $HIGH$, double %e1)
  %r0 = insertvalue {double, double, i64} poison, double %p, 0
  %r1 = insertvalue {double, double, i64} %r0, double %e2, 1
  %r2 = insertvalue {double, double, i64} %r1, i64 %n, 2
  ret {double, double, i64} %r2
}
"""

# sine and cosine of high + low, each with its rounding error
_SERIES = """
define internal {double, double, double, double} @series(double %high, double %low) nounwind {
  %z = fmul double %high, %high
  %half = fmul double %z, 0.5
$SIN$
$COS$
  %cube = fmul double %high, %z
  %near = fsub double 1.0, %half
  %slope = fmul double %low, %near
  %tail = call double @llvm.fma.f64(double %cube, double %s, double %slope)
  %sine = fadd double %high, %tail
  %s_used = fsub double %sine, %high
  %s_rest = fsub double %tail, %s_used
  %d0 = fsub double 1.0, %near
  %dropped = fsub double %d0, %half
  %square = fmul double %z, %z
  %cross = fmul double %high, %low
  %minus = fneg double %cross
  %more = call double @llvm.fma.f64(double %square, double %c, double %minus)
  %rest = fadd double %dropped, %more
  %cosine = fadd double %near, %rest
  %c_used = fsub double %cosine, %near
  %c_rest = fsub double %rest, %c_used
  %r0 = insertvalue {double, double, double, double} poison, double %sine, 0
  %r1 = insertvalue {double, double, double, double} %r0, double %s_rest, 1
  %r2 = insertvalue {double, double, double, double} %r1, double %cosine, 2
  %r3 = insertvalue {double, double, double, double} %r2, double %c_rest, 3
  ret {double, double, double, double} %r3
}

define internal {double, double, double, double, i64} @parts(double %x) nounwind {
  %size = call double @llvm.fabs.f64(double %x)
  %angle = call {double, double, i64} @angle(double %size)
  %high = extractvalue {double, double, i64} %angle, 0
  %low = extractvalue {double, double, i64} %angle, 1
  %n = extractvalue {double, double, i64} %angle, 2
  %v = call {double, double, double, double} @series(double %high, double %low)
  %v0 = extractvalue {double, double, double, double} %v, 0
  %v1 = extractvalue {double, double, double, double} %v, 1
  %v2 = extractvalue {double, double, double, double} %v, 2
  %v3 = extractvalue {double, double, double, double} %v, 3
  %r0 = insertvalue {double, double, double, double, i64} poison, double %v0, 0
  %r1 = insertvalue {double, double, double, double, i64} %r0, double %v1, 1
  %r2 = insertvalue {double, double, double, double, i64} %r1, double %v2, 2
  %r3 = insertvalue {double, double, double, double, i64} %r2, double %v3, 3
  %r4 = insertvalue {double, double, double, double, i64} %r3, i64 %n, 4
  ret {double, double, double, double, i64} %r4
}
"""

_FAR = """
define internal double @signed(double %value, i64 %quarters, double %x) nounwind {
  %second = lshr i64 %quarters, 1
  %sign = shl i64 %second, 63
  %bits = bitcast double %value to i64
  %flipped = xor i64 %bits, %sign
  %result = bitcast i64 %flipped to double
  %size = call double @llvm.fabs.f64(double %x)
  %finite = fcmp olt double %size, 0x7FF0000000000000
  %nan = fsub double %x, %x
  %checked = select i1 %finite, double %result, double %nan
  ret double %checked
}

define double @tetrax_sin_far(double %x) nounwind {
  %p = call {double, double, double, double, i64} @parts(double %x)
  %sine = extractvalue {double, double, double, double, i64} %p, 0
  %cosine = extractvalue {double, double, double, double, i64} %p, 2
  %n = extractvalue {double, double, double, double, i64} %p, 4
  %odd = trunc i64 %n to i1
  %value = select i1 %odd, double %cosine, double %sine
  %opposite = fneg double %value
  %left = fcmp olt double %x, 0.0
  %own = select i1 %left, double %opposite, double %value
  %result = call double @signed(double %own, i64 %n, double %x)
  ret double %result
}

define double @tetrax_cos_far(double %x) nounwind {
  %p = call {double, double, double, double, i64} @parts(double %x)
  %sine = extractvalue {double, double, double, double, i64} %p, 0
  %cosine = extractvalue {double, double, double, double, i64} %p, 2
  %n = extractvalue {double, double, double, double, i64} %p, 4
  %odd = trunc i64 %n to i1
  %value = select i1 %odd, double %sine, double %cosine
  %next = add i64 %n, 1
  %result = call double @signed(double %value, i64 %next, double %x)
  ret double %result
}

define double @tetrax_tan_far(double %x) nounwind {
  %p = call {double, double, double, double, i64} @parts(double %x)
  %sine = extractvalue {double, double, double, double, i64} %p, 0
  %s_rest = extractvalue {double, double, double, double, i64} %p, 1
  %cosine = extractvalue {double, double, double, double, i64} %p, 2
  %c_rest = extractvalue {double, double, double, double, i64} %p, 3
  %n = extractvalue {double, double, double, double, i64} %p, 4
  %odd = trunc i64 %n to i1
  %sine_minus = fneg double %sine
  %s_rest_minus = fneg double %s_rest
  %top = select i1 %odd, double %cosine, double %sine
  %top_rest = select i1 %odd, double %c_rest, double %s_rest
  %bottom = select i1 %odd, double %sine_minus, double %cosine
  %bottom_rest = select i1 %odd, double %s_rest_minus, double %c_rest
  %quotient = fdiv double %top, %bottom
  %minus = fneg double %quotient
  %e0 = call double @llvm.fma.f64(double %minus, double %bottom, double %top)
  %e1 = call double @llvm.fma.f64(double %minus, double %bottom_rest, double %e0)
  %e2 = fadd double %e1, %top_rest
  %correction = fdiv double %e2, %bottom
  %value = fadd double %quotient, %correction
  %opposite = fneg double %value
  %left = fcmp olt double %x, 0.0
  %own = select i1 %left, double %opposite, double %value
  %result = call double @signed(double %own, i64 0, double %x)
  ret double %result
}
"""

# 11 bits of the quotient at a time: so much more than its mantissa does a word hold
_REM = """
define internal {i64, i64} @mantissa(double %size) nounwind {
  %bits = bitcast double %size to i64
  %exponent = lshr i64 %bits, 52
  %denormal = icmp eq i64 %exponent, 0
  %fraction = and i64 %bits, 4503599627370495
  %with = or i64 %fraction, 4503599627370496
  %zeros = call i64 @llvm.ctlz.i64(i64 %fraction, i1 false)
  %up0 = sub i64 %zeros, 11
  %up = and i64 %up0, 63
  %moved = shl i64 %fraction, %up
  %low = sub i64 1, %up
  %m = select i1 %denormal, i64 %moved, i64 %with
  %e = select i1 %denormal, i64 %low, i64 %exponent
  %r0 = insertvalue {i64, i64} poison, i64 %m, 0
  %r1 = insertvalue {i64, i64} %r0, i64 %e, 1
  ret {i64, i64} %r1
}

define double @tetrax_rem(double %x, double %y) nounwind {
entry:
  %a = call double @llvm.fabs.f64(double %x)
  %b = call double @llvm.fabs.f64(double %y)
  %finite = fcmp olt double %a, 0x7FF0000000000000
  %usable = fcmp ogt double %b, 0.0
  %defined = and i1 %finite, %usable
  br i1 %defined, label %order, label %undefined
undefined:
  %product = fmul double %x, %y
  %nan = fdiv double %product, %product
  ret double %nan
order:
  %smaller = fcmp olt double %a, %b
  br i1 %smaller, label %unchanged, label %divide
unchanged:
  ret double %x
divide:
  %xs = call {i64, i64} @mantissa(double %a)
  %ys = call {i64, i64} @mantissa(double %b)
  %xm = extractvalue {i64, i64} %xs, 0
  %xe = extractvalue {i64, i64} %xs, 1
  %ym = extractvalue {i64, i64} %ys, 0
  %ye = extractvalue {i64, i64} %ys, 1
  %steps = sub i64 %xe, %ye
  %start = urem i64 %xm, %ym
  br label %test
test:
  %left = phi i64 [ %steps, %divide ], [ %fewer, %turn ]
  %rest = phi i64 [ %start, %divide ], [ %next, %turn ]
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %turn, label %leave
turn:
  %some = call i64 @llvm.umin.i64(i64 %left, i64 11)
  %longer = shl i64 %rest, %some
  %next = urem i64 %longer, %ym
  %fewer = sub i64 %left, %some
  br label %test
leave:
  %power = sub i64 %ye, 1075
  %half = ashr i64 %power, 1
  %other = sub i64 %power, %half
  %p0 = add i64 %half, 1023
  %q0 = add i64 %other, 1023
  %p1 = shl i64 %p0, 52
  %q1 = shl i64 %q0, 52
  %p = bitcast i64 %p1 to double
  %q = bitcast i64 %q1 to double
  %r = uitofp i64 %rest to double
  %rp = fmul double %r, %p
  %rq = fmul double %rp, %q
  %signed = call double @llvm.copysign.f64(double %rq, double %x)
  ret double %signed
}
"""
