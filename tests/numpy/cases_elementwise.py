"""Expressions over elementwise functions."""

from __future__ import annotations

_INEXACT = (
    "exp exp2 expm1 log log1p log2 log10 sqrt cbrt reciprocal sin cos tan arcsin arccos arctan sinh cosh "
    "tanh arcsinh arccosh arctanh acos acosh asin asinh atan atanh deg2rad rad2deg degrees radians sinc"
).split()
_KEEPING = (
    "abs absolute fabs positive sign signbit floor ceil trunc rint round around real imag conj conjugate "
    "angle isfinite isinf isnan isposinf isneginf isreal iscomplex nan_to_num square negative invert "
    "bitwise_not bitwise_invert logical_not bitwise_count frexp modf spacing i0"
).split()
_OPERANDS = "f pos big nan h c i i8 u8 u b w wf 3 2.5 True e np.float64(0.5) np.int64(3)".split()
_BINARY = (
    "add subtract multiply divide true_divide floor_divide power pow float_power remainder mod fmod "
    "divmod arctan2 atan2 hypot logaddexp logaddexp2 maximum minimum fmax fmin copysign nextafter heaviside "
    "ldexp gcd lcm bitwise_and bitwise_or bitwise_xor left_shift right_shift bitwise_left_shift "
    "bitwise_right_shift logical_and logical_or logical_xor equal not_equal less less_equal greater "
    "greater_equal"
).split()
_PAIRS = (
    "f,2 f,2.5 2,f f,f1[:3] f,f[:,:1] i,i[:1] i,2 i,2.0 i8,2 i8,u8 u,i8[:3] u,2 b,b b,1 w,wf w,w wf,wf "
    "True,True 3,2 i8,i1[:3] c,2 c,f1[:3] c,c h,2 h,f1[:3] 2.0,k nan,1.0 nan,nan u8,1 k,-1 f1,k w,i8 "
    "f,i 0.5,wf f,np.float64(2) f,np.ones(3) i,np.arange(3) e,1 f,f1 None,f 'a',f [1],f"
).split()

UNARY = [f"jnp.{name}({x})" for name in (*_INEXACT, *_KEEPING) for x in _OPERANDS]
BINARY = [f"jnp.{name}({pair})" for name in _BINARY for pair in _PAIRS]

OTHERS = [
    "jnp.round(f, 1)",
    "jnp.round(f * 100, -1)",
    "jnp.round(i, 2)",
    "jnp.round(i, -1)",
    "jnp.round(c, 1)",
    "jnp.round(h, 1)",
    "jnp.angle(c, deg=True)",
    "jnp.nan_to_num(nan, nan=3.0, posinf=1, neginf=-1)",
    "jnp.clip(i, 0, 3)",
    "jnp.clip(i, 0.5, 1)",
    "jnp.clip(f, 2, 1)",
    "jnp.clip(i)",
    "jnp.clip(c, 0, 1)",
    "jnp.clip(i, None, f0)",
    "jnp.clip(f0, min=k)",
    "jnp.clip(nan, 0, 1)",
    "jnp.clip(f, jnp.nan, 3)",
    "jnp.clip(w, 0, 5)",
    "jnp.power(i8, 2)",
    "jnp.power(2, k)",
    "jnp.power(i, -1)",
    "jnp.power(f, -2)",
    "jnp.power(c, 2)",
    "jnp.power(k, k)",
    "jnp.power(0.0, 0)",
    "jnp.power(b, 2)",
    "jnp.power(2, b)",
    "jnp.power(f1, k[:1])",
    "jnp.power(i8, jnp.int32(2))",
    "jnp.power(jnp.bfloat16(2), jnp.int32(-3))",
    "jnp.floor_divide(jnp.int32([5, -5, 0]), 2)",
    "jnp.remainder(jnp.int32([5, -5]), 0)",
    "jnp.remainder(jnp.float32([5, -5, 4]), jnp.float32([-3, 3, jnp.inf]))",
    "jnp.floor_divide(f, -0.75)",
    "jnp.left_shift(1, 40)",
    "jnp.right_shift(-8, 1)",
    "jnp.right_shift(u8, 1)",
    "jnp.left_shift(1, -1)",
    "jnp.right_shift(-1, 40)",
    "jnp.ldexp(jnp.float32(1), 200)",
    "jnp.ldexp(jnp.float32(1e-30), 120)",
    "jnp.ldexp(h, k)",
    "jnp.frexp(jnp.array([0.0, 1e-40, jnp.inf, jnp.nan, -8]))",
    "jnp.modf(jnp.array([-1.5, 2.25, 0.0]))",
    "jnp.packbits(b)",
    "jnp.packbits(b2, axis=0)",
    "jnp.packbits(i, bitorder='little')",
    "jnp.packbits(f)",
    "jnp.unpackbits(u8)",
    "jnp.unpackbits(u8, count=10)",
    "jnp.unpackbits(u8, count=-3, bitorder='little')",
    "jnp.unpackbits(u8.reshape(3, 1), axis=1)",
    "jnp.unpackbits(i)",
    "jnp.isclose(f, f + 1e-7)",
    "jnp.isclose(nan, nan, equal_nan=True)",
    "jnp.isclose(i, i)",
    "jnp.isclose(c, c + 1e-3, atol=1e-2)",
    "jnp.allclose(f, f)",
    "jnp.array_equal(f, f)",
    "jnp.array_equal(f, i)",
    "jnp.array_equal([1, 2], k)",
    "jnp.array_equal(nan, nan, equal_nan=True)",
    "jnp.array_equiv(k, jnp.stack([k, k]))",
    "jnp.array_equiv(k, f1)",
    "jnp.logaddexp(-jnp.inf, -jnp.inf)",
    "jnp.hypot(jnp.inf, jnp.nan)",
    "jnp.hypot(3.0, 4)",
    "f + 1",
    "1 + f",
    "f - i",
    "i // 2",
    "7 // k",
    "i % 3",
    "f ** 2",
    "f ** 2.0",
    "2 ** k",
    "2.0 ** k",
    "-f",
    "+i",
    "~i",
    "~b",
    "-b",
    "abs(i)",
    "divmod(i, 2)",
    "round(f)",
    "round(f, 1)",
    "f == f",
    "f == None",
    "f == 'a'",
    "f < 'a'",
    "f + 'a'",
    "f + None",
    "f + [1, 2, 3]",
    "[1, 2, 3] + f1[:3]",
    "f == [1, 2]",
    "i & 1",
    "1 | i",
    "i ^ i",
    "i << 1",
    "i >> 1",
    "m @ m",
    "m @ np.ones(2, np.float32)",
    "m @ 2",
    "np.ones(3, np.float32) + f",
    "np.float32(2) * f",
    "2 in k",
    "9 in k",
    "bool(f)",
    "bool(f0)",
    "float(f0)",
    "int(jnp.int32(3))",
    "[10, 20, 30][jnp.int32(1)]",
    "len(f0)",
    "list(f)",
    "iter(f0)",
    "f.__setitem__(0, 1)",
    "i8 + 300",
    "u8 - 2",
    "w + 2 ** 40",
    "jnp.add(i8, 300)",
]
