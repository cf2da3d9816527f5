"""`tetrax.numpy` gives what `jax.numpy` gives: values, dtypes, weak types, error classes.

The default run takes every sixteenth expression; `-m slow` takes all of them, in 32 and in 64 bits.
"""

from __future__ import annotations

import cases_elementwise
import cases_linalg
import cases_reductions
import cases_shapes
import differential
import jax
import jax.numpy
import pytest
from improved import is_improved

import tetrax
import tetrax.numpy
from tetrax.tracing.value import Value

FAMILIES = {
    f"{module.__name__.removeprefix('cases_')}-{name.lower()}": cases
    for module in (cases_elementwise, cases_reductions, cases_shapes, cases_linalg)
    for name, cases in vars(module).items()
    if name.isupper() and not name.startswith("_")
}
SAMPLE = 16


def differences(family: str, expressions: list[str]) -> list[str]:
    ours = differential.environment(tetrax.numpy, tetrax.lax)
    theirs = differential.environment(jax.numpy, jax.lax)
    found = []
    for expression in expressions:
        if is_improved(expression):
            continue
        problem = differential.difference(
            differential.evaluate(expression, ours),
            differential.evaluate(expression, theirs),
            lambda x: isinstance(x, Value),
            values=not family.endswith("_types"),
        )
        if problem:
            found.append(f"{expression}: {problem}")
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_sample(family):
    offset = sum(map(ord, family)) % SAMPLE
    assert differences(family, FAMILIES[family][offset::SAMPLE]) == []


@pytest.mark.slow
@pytest.mark.parametrize("x64", [False, True], ids=["32", "64"])
@pytest.mark.parametrize("family", FAMILIES)
def test_everything(family, x64):
    with jax.enable_x64(x64), tetrax.enable_x64(x64):
        assert differences(family, FAMILIES[family]) == []
