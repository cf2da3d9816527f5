"""Random programs on arrays that are cut at random: the values of one device."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.devices.layouts import P
from tests.devices.partitioned import GRID, check

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import lax

N = 8
ROW = np.linspace(-1, 1, N, dtype=np.float32)
INDEX = np.array([3, 0, 7, 3, 5, 1, 1, 6], np.int32)

# Each takes two matrices of N by N and gives one, with elements that stay small.
STEPS = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "sin": lambda a, b: jnp.sin(a),
    "product": lambda a, b: a @ b / N,
    "transposed product": lambda a, b: a.T @ b / N,
    "two products": lambda a, b: (a @ b + b @ a) / N,
    "transpose": lambda a, b: a.T,
    "centred": lambda a, b: a - a.mean(0),
    "softmax": lambda a, b: tetrax.nn.softmax(a, -1),
    "row": lambda a, b: a + ROW,
    "column": lambda a, b: a * ROW[:, None],
    "total": lambda a, b: a + b.sum() / N**2,
    "reshaped": lambda a, b: a.reshape(2, 4, N).swapaxes(0, 1).reshape(N, N),
    "joined": lambda a, b: jnp.concatenate([a, b])[::2],
    "rolled": lambda a, b: jnp.roll(a, 3, 1) + b,
    "sorted": lambda a, b: jnp.sort(a, 0),
    "taken": lambda a, b: a[INDEX],
    "taken across": lambda a, b: jnp.take_along_axis(a, jnp.argsort(b, 1), 1),
    "added at": lambda a, b: a.at[INDEX].add(b) / 2,
    "set at": lambda a, b: a.at[:, 2].set(b[:, 5]),
    "cumulative": lambda a, b: jnp.cumsum(a, 1) / N,
    "scan": lambda a, b: lax.scan(lambda c, x: (c / 2 + x, c), b[0], a)[1],
    "loop": lambda a, b: lax.fori_loop(0, 3, lambda i, c: c.T / 2 + a, b),
    "sums of a loop": lambda a, b: (
        lax.scan(lambda c, x: (c + jnp.outer(x, x), None), jnp.zeros((N, N)), a)[0] / N
    ),
    "branch": lambda a, b: lax.cond(a.sum() > 0, lambda x: x.T, lambda x: -x, b),
    "gradient": lambda a, b: tetrax.grad(lambda x: (jnp.tanh(x @ b) ** 2).sum() / N)(a),
    "vmap": lambda a, b: tetrax.vmap(lambda x, y: x * y.sum())(a, b) / N,
    "counted": lambda a, b: a + jnp.arange(N) / N,
    "masked": lambda a, b: jnp.where(jnp.tril(jnp.ones((N, N), bool)), a, b),
    "random": lambda a, b: a + tetrax.random.uniform(tetrax.random.key(1), (N, N)),
    "constrained": lambda a, b: lax.with_sharding_constraint(
        a + b, tetrax.sharding.NamedSharding(GRID, P("y", "x"))
    ),
}
SPECS = (P(), P("x"), P("y"), P(None, "y"), P("x", "y"), P("y", "x"), P(("x", "y")))
steps = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.booleans()), min_size=2, max_size=6)


def program_of(names: list[tuple[str, bool]]) -> Any:
    def program(a: Any, b: Any) -> Any:
        for name, swap in names:
            a, b = (b, STEPS[name](a, b)) if swap else (STEPS[name](a, b), b)
        return a, b

    return program


def operands() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return tuple(rng.uniform(-1, 1, (N, N)).astype(np.float32) for _ in range(2))


@settings(max_examples=50)
@given(steps, st.sampled_from(SPECS), st.sampled_from(SPECS))
def test_random_programs(names: list[tuple[str, bool]], first: P, second: P):
    # Orders and branches may hang on last bits only where values tie, which random ones do not.
    check(program_of(names), operands(), (first, second), GRID, tolerance=1e-5)


@settings(max_examples=25)
@given(steps, st.sampled_from(SPECS), st.sampled_from(SPECS))
def test_gradients_of_random_programs(names: list[tuple[str, bool]], first: P, second: P):
    program = program_of(names)
    direction = np.cos(np.arange(N * N, dtype=np.float32)).reshape(N, N)

    def step(a: Any, b: Any) -> Any:
        loss = lambda a, b: sum(jnp.vdot(x, direction) for x in program(a, b))
        found = tetrax.grad(loss, (0, 1))(a, b)
        return a - 0.1 * found[0], b - 0.1 * found[1]

    check(step, operands(), (first, second), GRID, tolerance=1e-5)
