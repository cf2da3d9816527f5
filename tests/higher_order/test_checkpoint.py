"""checkpoint: gradients are the same under every policy, and policies decide what is stored."""

from __future__ import annotations

import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax.higher_order.checkpoint import checkpoint_name
from tetrax.higher_order.residuals import saved_residuals

policies = tetrax.checkpoint_policies
X = np.linspace(0.1, 1.0, 4, dtype=np.float32).reshape(2, 2)


def f(x):
    a = checkpoint_name(jnp.sin(x) @ x, "product")
    b = checkpoint_name(jnp.cos(a), "cosine")
    return (jnp.exp(b) * a).sum()


POLICIES = {
    "none": None,
    "everything": policies.everything_saveable,
    "nothing": policies.nothing_saveable,
    "dots": policies.dots_saveable,
    "names": policies.save_only_these_names("product"),
    "except": policies.save_anything_except_these_names("product"),
}


@pytest.mark.parametrize("name", POLICIES)
def test_gradients_do_not_depend_on_the_policy(name):
    wrapped = tetrax.checkpoint(f, policy=POLICIES[name])
    expected = tetrax.grad(f)(X)
    np.testing.assert_allclose(tetrax.grad(wrapped)(X), expected, rtol=1e-5)
    np.testing.assert_allclose(tetrax.jit(tetrax.grad(wrapped))(X), expected, rtol=1e-5)
    hessian = tetrax.hessian(f)(X)
    np.testing.assert_allclose(tetrax.hessian(wrapped)(X), hessian, rtol=1e-4, atol=1e-5)


def origins(policy):
    found = saved_residuals(tetrax.checkpoint(f, policy=policy), X)
    return " ".join(origin for _, origin in found)


def test_what_is_stored():
    assert "named" not in origins(None) and "output" not in origins(None)
    assert "'product'" in origins(POLICIES["names"]) and "'cosine'" not in origins(
        POLICIES["names"]
    )
    assert "'product'" not in origins(POLICIES["except"])
    assert "dot_general" in origins(POLICIES["dots"])
    assert origins(POLICIES["everything"]).count("output") > 1


def test_residuals_of_a_plain_function():
    found = saved_residuals(lambda x, y: jnp.sin(x) * y, 1.0, 2.0)
    assert any("argument y" in origin for _, origin in found)
    assert any("cos" in origin and "test_checkpoint.py" in origin for _, origin in found)
