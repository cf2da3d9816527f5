"""What programs are made of, cut over eight devices: the values of one."""

from __future__ import annotations

from typing import Any

import pytest
from tests.devices.layouts import P, mesh_of
from tests.devices.partitioned import GRID, LINE, check, placed, specs_of

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import lax
from tetrax.sharding import NamedSharding

RNG = np.random.default_rng(0)
X = RNG.standard_normal((16, 24)).astype(np.float32)
ROWS, COLUMNS = P("x"), P(None, "x")


def sharded(spec: P, mesh: Any = LINE) -> NamedSharding:
    return NamedSharding(mesh, spec)


# -- operations together ---------------------------------------------------------------------------

PROGRAMS = {
    "elementwise": lambda x: jnp.sin(x) * 2 + x,
    "sum of all": lambda x: x.sum(),
    "means": lambda x: x - x.mean(0) - x.mean(1, keepdims=True),
    "transpose": lambda x: x.T * 2,
    "products": lambda x: x @ x.T + x.sum(),
    "join axes": lambda x: x.reshape(-1) + 1,
    "split an axis": lambda x: x.reshape(4, 4, 24).sum(1),
    "split and join": lambda x: x.reshape(8, 2, 4, 6).transpose(2, 0, 1, 3).reshape(4, -1),
    "other sizes": lambda x: x.reshape(12, 32) * 2,
    "concatenate": lambda x: jnp.concatenate([x, x * 2]),
    "roll": lambda x: jnp.roll(x, 3, axis=1) + x,
    "pad": lambda x: jnp.pad(x, 1)[1:-1, 1:-1],
    "slices": lambda x: x[1:9, ::3] + x[2:10, 1::3],
    "index": lambda x: x[jnp.array([3, 1, 3])],
    "update": lambda x: x.at[jnp.array([3, 1]), 2].set(7.0),
    "sort": lambda x: jnp.sort(x, axis=0),
    "argsort": lambda x: jnp.argsort(x.ravel()),
    "top_k": lambda x: lax.top_k(x, 3)[0],
    "cumsum": lambda x: jnp.cumsum(x, 1),
    "any": lambda x: (jnp.any(x > 2, 1), jnp.all(x > -9), jnp.max(x, 0), jnp.min(x)),
    "argmax": lambda x: (jnp.argmax(x, 0), jnp.argmax(x, 1)),
    "median": lambda x: jnp.median(x, axis=1),
    "linalg": lambda x: jnp.linalg.inv(x[:, :9].reshape(16, 3, 3) + 4 * jnp.eye(3)),
    "fft": lambda x: jnp.abs(jnp.fft.rfft(x)),
    "ragged": lambda x: x[:, :5] @ jnp.ones((5, 3), np.float32),
    "einsum": lambda x: jnp.einsum("ij,kj,kl->il", x, x, x),
    "iota": lambda x: x + jnp.arange(24) + jnp.arange(16)[:, None],
    "masks": lambda x: jnp.where(jnp.tril(jnp.ones((16, 24), bool)), x, 0.0),
    "dtypes": lambda x: (x.astype(jnp.bfloat16) * 2, (x * 9).astype(int) // 2, x > 0, x * 1j),
    "empty": lambda x: (x[:0], x[:, 3:3].sum(1), jnp.zeros((0,))),
    "constants": lambda x: (jnp.float32(3), jnp.ones(8), x * 0),
    "the argument": lambda x: x,
    "gradient": tetrax.grad(lambda x: jnp.sum(jnp.tanh(x @ x.T))),
    "hessian": lambda x: tetrax.hessian(lambda v: jnp.sum(jnp.sin(v @ x) ** 2))(x[:, 0]),
    "jacobian": lambda x: tetrax.jacrev(lambda v: jnp.sin(x @ v))(x[0]),
    "vmap": tetrax.vmap(lambda v: jnp.outer(v, v).sum(0)),
    "vmap of grad": lambda x: tetrax.vmap(tetrax.grad(lambda v: jnp.prod(jnp.cos(v))))(x),
    "scan over rows": lambda x: lax.scan(lambda c, v: (jnp.sin(c) + v, c.sum()), x[0], x),
    "scan with a constant": lambda x: lax.scan(
        lambda c, _: (jnp.tanh(c @ x.T @ x / 99), None), x, None, 3
    )[0],
    "carry that changes": lambda x: lax.fori_loop(0, 3, lambda i, c: c.T.reshape(c.shape) + x, x),
    "zero carry": lambda x: lax.fori_loop(0, 3, lambda i, c: c + x * i, jnp.zeros_like(x)),
    "while": lambda x: lax.while_loop(lambda c: jnp.sum(c) < 99, lambda c: c + 1 + abs(x), x),
    "cond": lambda x: lax.cond(x.sum() > 0, lambda v: v * 2, lambda v: v.T.reshape(v.shape), x),
    "switch": lambda x: lax.switch(2, [jnp.sin, jnp.cos, lambda v: v[::-1]], x),
    "associative scan": lambda x: lax.associative_scan(jnp.add, x, axis=1),
    "map": lambda x: lax.map(lambda v: v / v.sum(), x),
    "random": lambda x: x + tetrax.random.normal(tetrax.random.key(3), x.shape),
    "split keys": lambda x: tetrax.vmap(lambda k, v: v * tetrax.random.uniform(k))(
        tetrax.random.split(tetrax.random.key(1), 16), x
    ),
    "checkpoint": tetrax.grad(lambda x: tetrax.checkpoint(lambda v: jnp.sum(jnp.sin(v.T @ v)))(x)),
    "solve": lambda x: jnp.linalg.solve(x @ x.T + 9 * jnp.eye(16), x),
}
# Of sums in another order the products, exponentials and factorisations make a little more.
TOLERANCE = dict.fromkeys(("hessian", "gradient", "checkpoint", "solve", "linalg"), 1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("spec", [ROWS, P("y", "x")], ids=str)
def test_programs(name: str, spec: P):
    mesh = GRID if "y" in str(spec) else LINE
    check(PROGRAMS[name], (X,), (spec,), mesh, tolerance=TOLERANCE.get(name, 2e-6))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_whose_sizes_do_not_divide(name: str):
    """Parts of parts: what does not divide is never cut, however it came about."""
    function = PROGRAMS[name]
    x = np.concatenate([X, X[:4]])  # 20 rows, of which 4 or 2 parts can be made, but not 8
    if name in ("split an axis", "split and join", "other sizes", "masks", "split keys", "iota"):
        return  # these say their sizes
    if name in ("linalg", "solve"):
        return
    grid = mesh_of(np.arange(8).reshape(4, 2), "xy")
    check(function, (x,), (P(("x",), "y"),), grid, tolerance=TOLERANCE.get(name, 2e-6))
    check(
        lambda x: function(x[:16]), (x,), (P("x", "y"),), grid, tolerance=TOLERANCE.get(name, 2e-6)
    )


DTYPES = {
    "bfloat16": (X.astype(jnp.bfloat16), 0.02),
    "float16": (X.astype(np.float16), 2e-3),
    "int32": ((X * 99).astype(np.int32), 0),
    "uint8": (abs(X * 99).astype(np.uint8), 0),
    "bool": (X > 0, 0),
    "complex64": ((X * (1 + 2j)).astype(np.complex64), 1e-6),
}


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name: str):
    """Sums and products, within the rounding of partial sums to narrow floats."""
    value, tolerance = DTYPES[name]
    for function in (lambda x: x.sum(0), lambda x: x @ x.T, lambda x: x[::2], lambda x: (x, x.T)):
        check(function, (value,), (ROWS,), tolerance=tolerance)


def test_keys_are_cut():
    keys = tetrax.random.split(tetrax.random.key(0), 16)
    draw = lambda keys: tetrax.vmap(lambda k: tetrax.random.normal(k, (3,)))(keys)
    found = check(draw, (keys,), (ROWS,), collectives={}, tolerance=0)
    assert found.sharding.spec == P("x")


def test_scalars():
    check(lambda a, x: a * x.sum(), (np.float32(2), X), (P(), ROWS))


# -- random numbers --------------------------------------------------------------------------------

DRAWS = {
    "normal": lambda key: tetrax.random.normal(key, (16, 8)),
    "uniform": lambda key: tetrax.random.uniform(key, (16, 8)),
    "bits": lambda key: tetrax.random.bits(key, (16, 8)),
    "bytes": lambda key: tetrax.random.bits(key, (16, 8), "uint8"),
    "integers": lambda key: tetrax.random.randint(key, (16, 8), 0, 1000),
    "flags": lambda key: tetrax.random.bernoulli(key, 0.3, (16, 8)),
    "gamma": lambda key: tetrax.random.gamma(key, 2.0, (16, 8)),
    "permutation": lambda key: tetrax.random.permutation(key, 16),
    "keys": lambda key: tetrax.random.key_data(tetrax.random.split(key, 16)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_bits_are_those_of_one_device(name: str):
    key = tetrax.random.key(7)
    expected = tetrax.jit(DRAWS[name])(key)
    found = tetrax.jit(DRAWS[name], out_shardings=sharded(ROWS))(key)
    assert found.sharding.spec == P("x")
    np.testing.assert_array_equal(found, expected)


def test_drawn_once_for_all():
    """A generator that is not a function of its operands gives all devices the same numbers."""
    found = tetrax.jit(lambda x: x * 0 + lax.rng_uniform(0.0, 1.0, (16, 24)))(placed(X, P()))
    parts = {np.asarray(shard.data).tobytes() for shard in found.addressable_shards}
    assert len(parts) == 1


# -- derivatives given by hand ---------------------------------------------------------------------


@tetrax.custom_jvp
def cubed(x: Any) -> Any:
    return x**3


@cubed.defjvp
def _cubed_jvp(primals: Any, tangents: Any) -> Any:
    return cubed(primals[0]), 30 * tangents[0]


@tetrax.custom_vjp
def doubled(x: Any) -> Any:
    return 2 * x


doubled.defvjp(lambda x: (2 * x, x.sum(0)), lambda total, ct: (ct * total,))


@pytest.mark.parametrize("spec", [ROWS, COLUMNS])
def test_custom_derivatives(spec: P):
    check(tetrax.grad(lambda x: cubed(x).sum()), (X,), (spec,))
    check(tetrax.grad(lambda x: doubled(x).sum()), (X,), (spec,))


# -- asking for layouts ----------------------------------------------------------------------------


def test_constraints_in_the_middle():
    def function(x: Any) -> Any:
        y = lax.with_sharding_constraint(jnp.sin(x), sharded(P("x", "y"), GRID))
        return y * 2

    found = check(function, (X,), (P(),), GRID, collectives={})
    assert found.sharding.spec == P("x", "y")
    found = check(lambda x: function(x).sum(1), (X,), (P("y"),), GRID)
    assert found.sharding.spec == P("x")
    gathered = lambda x: lax.with_sharding_constraint(x * 2, sharded(P()))
    found = check(gathered, (X,), (ROWS,), collectives={"all_gather": 1})
    assert found.sharding.is_fully_replicated


def test_constraints_in_gradients():
    def loss(x: Any) -> Any:
        return jnp.sum(lax.with_sharding_constraint(x * x, sharded(COLUMNS)) ** 2)

    check(tetrax.grad(loss), (X,), (P(),))


def test_results_and_arguments_where_they_are_wanted():
    found = check(lambda x: x @ x.T, (X,), (ROWS,), out_shardings=sharded(COLUMNS))
    assert found.sharding.spec == P(None, "x")
    double = tetrax.jit(lambda x: x * 2, in_shardings=sharded(COLUMNS))
    assert double(X).sharding.spec == P(None, "x")
    # A sum over devices of which each keeps a part.
    summed = {"reduce_scatter": 1}
    total = lambda x: x.T @ x
    tall = np.concatenate([X] * 8)
    found = check(total, (tall,), (ROWS,), collectives=summed, out_shardings=sharded(ROWS))
    assert found.sharding.spec == P("x")


def test_an_axis_that_moves_is_exchanged():
    moved = lambda x: lax.with_sharding_constraint(x + 1, sharded(COLUMNS))
    check(moved, (X,), (ROWS,), collectives={"all_to_all": 1})


def test_only_what_is_smaller_is_gathered():
    """Of two operands that are cut differently, and of a row before it is spread."""
    long, short = np.ones((64, 24), np.float32), np.ones((24, 8), np.float32)
    found = check(lambda a, b: a @ b, (long, short), (ROWS, ROWS), collectives={"all_gather": 1})
    assert found.sharding.spec == P("x")
    row = np.arange(24, dtype=np.float32)
    report = tetrax.jit(jnp.add).lower(*placed((long, row), (ROWS, ROWS))).sharding_report()
    assert [move.kind for move in report.moves] == ["all_gather"]
    assert report.moves[0].aval.size == 24


def test_nothing_is_gathered_twice():
    both = lambda x: (jnp.sort(x, 0), jnp.argsort(x, 0), x.sum())
    check(both, (X,), (ROWS,), collectives={"all_gather": 1, "all_reduce": 1})


def test_what_nobody_needs_costs_nothing():
    def function(x: Any) -> Any:
        jnp.sort(x, axis=0)
        return x * 2

    check(function, (X,), (ROWS,), collectives={})


def test_sums_are_added_before_they_are_exchanged():
    function = lambda x, w: x @ w + jnp.sin(x) @ w
    args = (X[:8], np.ones((24, 8), np.float32))
    check(function, args, (COLUMNS, ROWS), collectives={"all_reduce": 1})


def test_what_is_whole_is_cut_before_it_is_used():
    """A loop that carries zeros, and what is made of constants."""
    x = placed(X, ROWS)
    function = lambda x: lax.fori_loop(0, 3, lambda i, c: c + x, jnp.zeros_like(x))
    text = tetrax.jit(function).lower(x).text("partitioned")
    assert "[16,24]" not in text, text
    text = (
        tetrax.jit(lambda x: x + jnp.outer(jnp.arange(16), jnp.arange(24)))
        .lower(x)
        .text("partitioned")
    )
    assert "[16,24]" not in text, text


# -- outside of jit --------------------------------------------------------------------------------


def test_functions_called_on_parts():
    x = placed(X, ROWS)
    for function in (
        jnp.sin,
        jnp.sum,
        jnp.linalg.norm,
        lambda x: x @ x.T,
        lambda x: x[3],
        jnp.sort,
    ):
        np.testing.assert_allclose(function(x), function(jnp.asarray(X)), rtol=2e-6)
    assert specs_of([x + 1, jnp.exp(x), x.T, x.sum(1)]) == [P("x"), P("x"), P(None, "x"), P("x")]


def test_donation():
    x = placed(X, ROWS)
    found = tetrax.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(found, X + 1)


def test_prints_once(capfd: pytest.CaptureFixture[str]):
    def function(x: Any) -> Any:
        tetrax.debug.print("total {}", x.sum())
        return x * 2

    check(function, (np.ones((16, 24), np.float32),), (ROWS,))
    tetrax.effects_barrier()
    assert capfd.readouterr().out.count("total 384.0") == 2  # of one device, and of eight


def test_callbacks_are_called_once():
    calls = []

    def double(x: np.ndarray) -> np.ndarray:
        calls.append(x.shape)
        return np.asarray(x) * 2

    def function(x: Any) -> Any:
        return tetrax.pure_callback(double, tetrax.ShapeDtypeStruct(x.shape, x.dtype), x) + x

    found = tetrax.jit(function)(placed(X, ROWS))
    np.testing.assert_array_equal(found, X * 3)
    assert calls == [(16, 24)]
