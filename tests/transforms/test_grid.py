"""Every ordered pair of transformations (and triples through control flow) against real JAX.

`jit` and `checkpoint` change no value, so the oracle of a chain is the chain without them, taken
from JAX in float64. Tolerance: both sides evaluate the same formula in float64, a few hundred
operations deep, so 1e-9 relative leaves three digits of slack over accumulated rounding.
"""

from __future__ import annotations

import functools
import itertools
import json
from pathlib import Path
from typing import Any

import jax
import pytest
from tests.transforms.bodies import BODIES, cond, custom_jvp, custom_vjp, scan

import numpy as np
import tetrax

POINT = np.array([0.3, -0.7, 1.1])
DIRECTION = np.array([1.0, 0.5, -2.0])


def apply(lib: Any, name: str, f: Any) -> Any:
    """One transformation, as a map from vector functions to vector functions."""
    jnp = lib.numpy
    made = {
        "grad": lambda: lib.grad(lambda x: f(x).sum()),
        "jvp": lambda: lambda x: lib.jvp(f, (x,), (jnp.asarray(DIRECTION),))[1],
        "vjp": lambda: lambda x: lib.vjp(f, x)[1](jnp.asarray(DIRECTION))[0],
        "vmap": lambda: lambda x: lib.vmap(f)(jnp.stack([x, 0.5 * x, -x])).sum(0),
        "jit": lambda: lib.jit(f),
        "checkpoint": lambda: lib.checkpoint(f),
        "jacfwd": lambda: lambda x: lib.jacfwd(f)(x).sum(0),
        "linearize": lambda: lambda x: lib.linearize(f, x)[1](jnp.asarray(DIRECTION)),
    }
    return made[name]()


NAMES = ("grad", "jvp", "vjp", "vmap", "jit", "checkpoint", "jacfwd", "linearize")
TRIPLE_NAMES = ("grad", "jvp", "vmap", "jit", "checkpoint")
TRIPLE_BODIES = (scan, cond, custom_jvp)
SAME_VALUE = {"jit", "checkpoint"}
# Different ways to one number: JAX is asked once per class.
CANONICAL = {"linearize": "jvp"}


def value(lib: Any, body: Any, chain: tuple[str, ...]) -> np.ndarray | str:
    """The transformed function at POINT, or the name of the error class."""
    f = body(lib)
    for name in reversed(chain):
        f = apply(lib, name, f)
    try:
        return np.asarray(f(lib.numpy.asarray(POINT)))
    except (TypeError, NotImplementedError) as error:
        if "custom_vjp" in str(error) or "custom_lin" in str(error):
            return "no forward mode through custom_vjp"
        raise


ORACLE = Path(__file__).with_name("oracle.json")


@functools.cache
def recorded() -> dict[str, Any]:
    return json.loads(ORACLE.read_text())


def key(body: Any, chain: tuple[str, ...]) -> str:
    return f"{body.__name__}: {' '.join(chain)}"


def ask_jax(body: Any, chain: tuple[str, ...]) -> np.ndarray | str:
    with jax.enable_x64(True):
        return value(jax, body, chain)


def oracle(body: Any, chain: tuple[str, ...]) -> np.ndarray | str:
    """What JAX gave (oracle.json; JAX takes minutes for the whole table)."""
    found = recorded().get(key(body, chain))
    return ask_jax(body, chain) if found is None else found


def all_chains() -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Every question the tests ask JAX."""
    table = {}
    for body in BODIES:
        for chain in [(n,) for n in NAMES] + list(itertools.product(NAMES, repeat=2)):
            table[key(body, normal(body, chain))] = (body, normal(body, chain))
    for body in TRIPLE_BODIES:
        for chain in itertools.product(TRIPLE_NAMES, repeat=3):
            table[key(body, normal(body, chain))] = (body, normal(body, chain))
    return table


def record() -> None:
    """Ask JAX everything and write oracle.json: `python -m tests.transforms.test_grid`."""
    answers = {}
    for name, (body, chain) in all_chains().items():
        answer = ask_jax(body, chain)
        answers[name] = answer if isinstance(answer, str) else answer.tolist()
    ORACLE.write_text(json.dumps(answers, indent=0, sort_keys=True) + "\n")


def normal(body: Any, chain: tuple[str, ...]) -> tuple[str, ...]:
    # jvp and linearize meet a custom_vjp function in different ways: one may raise where the other
    # does not, in JAX as here.
    names = {} if body is custom_vjp else CANONICAL
    return tuple(names.get(n, n) for n in chain if n not in SAME_VALUE)


def check(body: Any, chain: tuple[str, ...]) -> None:
    expected = oracle(body, normal(body, chain))
    with tetrax.enable_x64(True):
        found = value(tetrax, body, chain)
    if isinstance(expected, str) or isinstance(found, str):
        assert str(found) == str(expected), chain
        return
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11, err_msg=str(chain))


@pytest.mark.parametrize("body", BODIES, ids=lambda b: b.__name__)
def test_single(body):
    for name in NAMES:
        check(body, (name,))


@pytest.mark.parametrize("body", BODIES, ids=lambda b: b.__name__)
def test_every_ordered_pair(body):
    for chain in itertools.product(NAMES, repeat=2):
        check(body, chain)


@pytest.mark.parametrize("body", TRIPLE_BODIES, ids=lambda b: b.__name__)
def test_triples(body):
    for chain in itertools.product(TRIPLE_NAMES, repeat=3):
        check(body, chain)


@pytest.mark.slow
@pytest.mark.parametrize("body", BODIES, ids=lambda b: b.__name__)
def test_recorded_answers_are_what_jax_gives(body):
    for name, (owner, chain) in all_chains().items():
        if owner is body:
            answer = ask_jax(body, chain)
            if isinstance(answer, str):
                assert recorded()[name] == answer
            else:
                np.testing.assert_allclose(recorded()[name], answer, rtol=1e-12, atol=1e-13)


def test_third_derivative_tensor():
    """jacfwd(jacfwd(jacrev(f))) of a polynomial of six variables, against its exact tensor."""
    rng = np.random.default_rng(0)
    tensor = rng.standard_normal((6, 6, 6))
    with tetrax.enable_x64(True):
        jnp = tetrax.numpy
        f = lambda x: jnp.einsum("ijk,i,j,k->", tensor, x, x, x)
        third = tetrax.jacfwd(tetrax.jacfwd(tetrax.jacrev(f)))(jnp.asarray(rng.standard_normal(6)))
    exact = sum(np.transpose(tensor, p) for p in itertools.permutations(range(3)))
    np.testing.assert_allclose(np.asarray(third), exact, rtol=1e-10, atol=1e-10)


if __name__ == "__main__":
    record()
