"""The operation behind gamma samples: one rejection loop per sample, implicit derivative.

G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables" (2000). Samples with
a < 1 are those for a + 1, times u^(1/a) for a uniform u.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from tetrax import dtypes, lax
from tetrax.ir.control import Inline
from tetrax.ir.types import ShapedArray
from tetrax.ops.base import batch_size
from tetrax.ops.fused import fma
from tetrax.ops.random_bits import check_keys, random_split
from tetrax.ops.sampling_math import sampling_log
from tetrax.ops.structure import batch_at
from tetrax.random._continuous import draw_exponential
from tetrax.random._keys import subkeys
from tetrax.random._normal import draw_normal
from tetrax.random._uniform import draw_uniform
from tetrax.tracing.primitive import Primitive
from tetrax.tracing.staging import stage
from tetrax.tracing.symbolic import Zero


def _one_sample(key: Any, a: Any, log_space: bool) -> Any:
    """A gamma sample, or its logarithm, for scalars."""
    dtype = a.dtype
    number = lambda value: lax.full((), value, dtype)
    one, third = number(1), number(1 / 3)
    large = lax.ge(a, one)
    d = lax.sub(lax.select(large, a, lax.add(a, one)), third)
    c = lax.div(third, lax.sqrt(d))

    def propose(state: Any) -> Any:
        """A normal x with v = 1 + c x positive."""
        key, normal_key = subkeys(state[0])
        x = draw_normal(normal_key, (), dtype)
        return key, x, fma(x, c, one)

    def attempt(state: Any) -> Any:
        key, x_key, u_key = subkeys(state[0], 3)
        start = (x_key, number(0), number(-1))
        _, x, v = lax.while_loop(lambda s: lax.le(s[2], number(0)), propose, start)
        cube = lax.mul(lax.mul(v, v), v)
        return key, lax.mul(x, x), cube, draw_uniform(u_key, (), dtype)

    def rejected(state: Any) -> Any:
        _, square, v, u = state
        cheap = lax.ge(u, lax.sub(one, lax.mul(number(0.0331), lax.mul(square, square))))
        bound = lax.mul(d, lax.add(lax.sub(one, v), sampling_log(v)))
        exact = lax.ge(sampling_log(u), lax.add(lax.mul(square, number(0.5)), bound))
        return lax.bitwise_and(cheap, exact)

    key, boost_key = subkeys(key)
    start = (key, number(0), one, number(2))
    _, _, v, _ = lax.while_loop(rejected, attempt, start)
    exponent = lax.div(one, a)
    if log_space:
        log_u = lax.neg(draw_exponential(boost_key, (), dtype))
        unused = lax.bitwise_or(large, lax.eq(log_u, number(0)))
        boost = lax.select(unused, number(0), lax.mul(log_u, exponent))
        return lax.add(lax.add(sampling_log(d), sampling_log(v)), boost)
    u = lax.sub(one, draw_uniform(boost_key, (), dtype))
    boost = lax.select(large, one, lax.pow(u, exponent))
    return lax.mul(lax.mul(d, v), boost)


def _samples(keys: Any, a: Any, log_space: bool) -> Any:
    """One key per sample, split off the given keys; a native loop over the samples."""
    count = math.prod(a.shape[keys.ndim :])
    split = lax.reshape(random_split(keys, (count,)), (a.size,))
    one = lambda pair: _one_sample(pair[0], pair[1], log_space)
    return lax.reshape(lax.map(one, (split, lax.reshape(a, (a.size,)))), a.shape)


@functools.lru_cache(1024)
def _program(avals: tuple[ShapedArray, ...], log_space: bool) -> Inline:
    return Inline(stage(lambda key, a: ([_samples(key, a, log_space)], None), avals)[0])


class RandomGamma(Primitive):
    """Gamma samples, or their logarithms, from keys and as many parameters for each key."""

    def shape(self, keys: ShapedArray, a: ShapedArray, *, log_space: bool) -> ShapedArray:
        check_keys("random_gamma", keys)
        return a

    def structure(self, avals: Sequence[ShapedArray], *, log_space: bool) -> Inline:
        return _program(tuple(avals), log_space)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, log_space: bool) -> Any:
        keys, a = primals
        out = self.bind(keys, a, log_space=log_space)
        if type(tangents[1]) is Zero:
            return out, Zero.from_primal_value(out)
        if not log_space:
            return out, lax.mul(tangents[1], lax.random_gamma_grad(a, out))
        tiny = lax.full(out.shape, dtypes.finfo(out.dtype).tiny, out.dtype)
        sample = lax.max(lax.exp(out), tiny)
        return out, lax.mul(tangents[1], lax.div(lax.random_gamma_grad(a, sample), sample))

    def batch(self, operands: Sequence[Any], dims: Sequence[Any], *, log_space: bool) -> Any:
        size = batch_size(operands, dims)
        keys, a = (batch_at(x, dim, size) for x, dim in zip(operands, dims, strict=True))
        return self.bind(keys, a, log_space=log_space), 0


random_gamma_p = RandomGamma("random_gamma")
