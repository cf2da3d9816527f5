"""Functions of a vector of three, written once for any library with JAX's API."""

from __future__ import annotations

from typing import Any


def elementwise(lib: Any):
    jnp = lib.numpy
    return lambda x: jnp.sin(x) * x + jnp.exp(-x * x)


def reductions(lib: Any):
    jnp = lib.numpy
    return lambda x: x / jnp.sqrt(jnp.sum(x * x)) + jnp.max(x) * jnp.cumsum(x)


def indexing(lib: Any):
    jnp = lib.numpy

    def f(x):
        picked = x[jnp.array([2, 0, 0])] * x[::-1]
        return picked.at[1].multiply(x[0]).at[jnp.array([0, 2])].add(x[1:])

    return f


def matrix(lib: Any):
    jnp = lib.numpy

    def f(x):
        a = jnp.outer(x, x) + 2.0 * jnp.eye(3)
        return a @ jnp.tanh(a @ x)

    return f


def scan(lib: Any):
    jnp, lax = lib.numpy, lib.lax

    def f(x):
        def turn(carry, t):
            new = jnp.sin(carry) * t + x[0]
            return new, new * carry

        last, ys = lax.scan(turn, x, jnp.arange(1.0, 4.0), reverse=True)
        return last + ys.sum(0)

    return f


def cond(lib: Any):
    jnp, lax = lib.numpy, lib.lax

    def f(x):
        return lax.cond(x.sum() > 0.5, lambda y: jnp.cos(y) * x, lambda y: y**3 + x[1], 1.5 * x)

    return f


def switch(lib: Any):
    jnp, lax = lib.numpy, lib.lax

    def f(x):
        index = (x[0] > 0).astype(int) + (x[1] > 0).astype(int)
        branches = [lambda y: y, lambda y: y * y, lambda y: jnp.sin(y) * y]
        return lax.switch(index, branches, x + 1.0)

    return f


def fori(lib: Any):
    jnp, lax = lib.numpy, lib.lax
    return lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c) + i * x, x)


def scan_of_cond(lib: Any):
    jnp, lax = lib.numpy, lib.lax

    def f(x):
        def turn(carry, t):
            new = lax.cond(t > 1.5, lambda c: jnp.sin(c) * x, lambda c: c + t, carry)
            return new, None

        return lax.scan(turn, x, jnp.arange(1.0, 4.0))[0]

    return f


def nested_jit(lib: Any):
    jnp = lib.numpy

    def f(x):
        inner = lib.jit(lambda y, z: (jnp.sin(y) * z, z))
        a, b = inner(x, x * x)
        return a * b

    return f


def checkpointed(lib: Any):
    jnp = lib.numpy

    def f(x):
        return lib.checkpoint(lambda y: jnp.sin(jnp.exp(jnp.sin(y))))(x) * x

    return f


def custom_jvp(lib: Any):
    jnp = lib.numpy

    @lib.custom_jvp
    def g(y, z):
        return jnp.sin(y) * z

    @g.defjvp
    def g_jvp(primals, tangents):
        (y, z), (dy, dz) = primals, tangents
        return g(y, z), jnp.cos(y) * z * dy + jnp.sin(y) * dz

    return lambda x: g(x, x * x)


def custom_vjp(lib: Any):
    jnp = lib.numpy

    @lib.custom_vjp
    def g(y, z):
        return jnp.sin(y) * z

    g.defvjp(
        lambda y, z: (g(y, z), (y, z)),
        lambda saved, ct: (jnp.cos(saved[0]) * saved[1] * ct, jnp.sin(saved[0]) * ct),
    )
    return lambda x: g(x, x * x)


def linear_algebra(lib: Any):
    jnp = lib.numpy

    def f(x):
        a = jnp.outer(x, x) + 3.0 * jnp.eye(3) + jnp.diag(x)
        return jnp.linalg.solve(a, x) + jnp.diag(jnp.linalg.cholesky(a @ a.T + jnp.eye(3)))

    return f


BODIES = (
    elementwise,
    reductions,
    indexing,
    matrix,
    scan,
    cond,
    switch,
    fori,
    scan_of_cond,
    nested_jit,
    checkpointed,
    custom_jvp,
    custom_vjp,
    linear_algebra,
)
