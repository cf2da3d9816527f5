"""Forms of `shard_map`, and what functions under it may use, against whole arrays."""

from __future__ import annotations

from typing import Any

import pytest

import numpy as np
import tetrax
from tetrax import lax
from tetrax.experimental.shard_map import shard_map as former_shard_map
from tetrax.sharding import Mesh

P = tetrax.P
X = np.arange(16, dtype=np.float32).reshape(4, 4)
W = np.arange(4, dtype=np.float32) + 1
FLAT = lambda: Mesh(np.array(tetrax.devices()[:4]), ("i",))
SQUARE = lambda: tetrax.make_mesh((2, 4), ("a", "b"))


def over(f: Any, in_specs: Any = None, out_specs: Any = None) -> Any:
    """`f` on four devices; specifications that are not given cut the first axis."""
    cut = P("i")
    in_specs = cut if in_specs is None else in_specs
    out_specs = cut if out_specs is None else out_specs
    return tetrax.shard_map(f, mesh=FLAT(), in_specs=in_specs, out_specs=out_specs)


def test_decorator():
    @tetrax.shard_map(mesh=FLAT(), in_specs=P("i"), out_specs=P("i"))
    def scaled(v: Any) -> Any:
        return v * lax.axis_index("i")

    np.testing.assert_array_equal(scaled(X), X * np.arange(4)[:, None])


def test_inferred_specs():
    total = tetrax.shard_map(lambda v: lax.psum(v, "i"), mesh=FLAT(), out_specs=P())
    cut = tetrax.device_put(X, tetrax.NamedSharding(FLAT(), P("i")))
    np.testing.assert_array_equal(total(cut), X.sum(0, keepdims=True))


def test_former_names():
    total = former_shard_map(lambda v: lax.psum(v, "i"), FLAT(), P("i"), P())
    np.testing.assert_array_equal(total(X), X.sum(0, keepdims=True))
    some = former_shard_map(
        lambda v: lax.psum(v, "a"), SQUARE(), P("a"), P(), check_rep=False, auto={"b"}
    )
    np.testing.assert_array_equal(tetrax.jit(some)(X), X[:2] + X[2:])


def test_one_axis_of_the_mesh_in_force():
    with tetrax.set_mesh(FLAT()):
        both = tetrax.smap(lambda v, w: v * w, in_axes=(0, None), out_axes=0, axis_name="i")
        np.testing.assert_array_equal(both(X, W), X * W)
        turned = tetrax.smap(lambda v: v * 2, in_axes=1, out_axes=1, axis_name="i")
        np.testing.assert_array_equal(turned(X), X * 2)
        with pytest.raises(TypeError, match="integers or None"):
            tetrax.smap(lambda v: v, in_axes="i", out_axes=0, axis_name="i")(X)
        with pytest.raises(TypeError, match="one axis_name"):
            tetrax.smap(lambda v: v, in_axes=0, out_axes=0, axis_name=("i",))(X)


def test_some_axes_of_a_mesh():
    f = tetrax.shard_map(
        lambda v: lax.psum(v, "a") * 2,
        mesh=SQUARE(),
        in_specs=P("a"),
        out_specs=P(),
        axis_names={"a"},
    )
    np.testing.assert_array_equal(tetrax.jit(f)(X), (X[:2] + X[2:]) * 2)


def test_nested_over_other_axes():
    mesh = SQUARE()

    def inner(u: Any) -> Any:
        return lax.psum(u, "b") + lax.axis_index("a")

    def outer(v: Any) -> Any:
        return tetrax.shard_map(
            inner, mesh=mesh, in_specs=P(None, "b"), out_specs=P(), axis_names={"b"}
        )(v * v)

    mapped = tetrax.shard_map(outer, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"})
    y = (X * X).sum(1, keepdims=True) + np.array([0, 0, 1, 1])[:, None]
    np.testing.assert_array_equal(mapped(X), y)
    gradient = tetrax.grad(lambda x: (mapped(x) ** 2).sum())(X)
    np.testing.assert_allclose(gradient, 4 * y * X, rtol=1e-6)


def test_closures_over_arrays_tracers_and_keys():
    key = tetrax.random.key(0)

    def loss(w: Any) -> Any:
        return over(lambda v: lax.psum((v * w).sum(), "i"), out_specs=P())(X)

    np.testing.assert_array_equal(tetrax.grad(loss)(W), X.sum(0))
    np.testing.assert_array_equal(
        tetrax.vmap(loss)(np.stack([W, 2 * W])), (X * W).sum() * np.array([1, 2])
    )
    np.testing.assert_array_equal(tetrax.jvp(loss, (W,), (W,)), [(X * W).sum()] * 2)

    def draw(index: Any) -> Any:
        return tetrax.random.uniform(tetrax.random.fold_in(key, index), (3,))

    expected = np.stack([draw(index) for index in range(4)])
    np.testing.assert_array_equal(tetrax.jit(draw)(3), expected[3])
    np.testing.assert_array_equal(
        over(lambda v: draw(lax.axis_index("i"))[None] + 0 * v[:, :3])(X), expected
    )
    mapped = tetrax.pmap(lambda v: draw(lax.axis_index("i")), "i")
    np.testing.assert_array_equal(mapped(X), expected)


def test_loops_and_branches_that_differ_between_devices():
    grow = over(lambda v: lax.while_loop(lambda c: c.sum() < 40, lambda c: c + v, v * 0 + 1))
    rows = []
    for row in X:
        c = np.ones_like(row)
        while c.sum() < 40:
            c = c + row
        rows.append(c)
    np.testing.assert_array_equal(grow(X), rows)
    branch = over(lambda v: lax.cond(v.sum() > 20, lambda u: u * 2, lambda u: u, v))
    np.testing.assert_array_equal(branch(X), np.where(X.sum(1, keepdims=True) > 20, X * 2, X))


@pytest.mark.parametrize("length", [1, 3])
def test_constants_of_a_loop_are_summed_once(length: int):
    def part(w: Any, v: Any) -> Any:
        turn = lambda c, _: (c * w + v[0], None)
        return lax.psum(lax.scan(turn, v[0] * 0, None, length=length)[0].sum(), "i")

    loss = lambda w: over(part, (P(), P("i")), P())(w, X)

    def whole(w: Any) -> Any:
        c = X * 0
        for _ in range(length):
            c = c * w + X
        return c.sum()

    np.testing.assert_allclose(tetrax.grad(loss)(W), tetrax.grad(whole)(W), rtol=1e-6)
    text = str(tetrax.make_jaxpr(tetrax.grad(loss))(W))
    # One for the loss, and one for what all devices say of `w`.
    assert text.count("psum[") <= 2, text


def test_a_loop_whose_constant_makes_a_result_that_is_the_same():
    def part(w: Any, v: Any) -> Any:
        total, scaled = lax.scan(lambda c, u: (c + (u * w).sum(), w * 2), 0.0 * v.sum(), v)
        return lax.psum(total, "i") + scaled.sum()

    loss = lambda w: over(part, (P(), P("i")), P())(w, X)
    np.testing.assert_array_equal(tetrax.grad(loss)(W), X.sum(0) + 2)
