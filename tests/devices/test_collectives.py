"""Collectives against what real JAX answers, and against programs of whole arrays in NumPy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.devices.collective_questions import (
    ORACLE,
    answer_of,
    names_of,
    operand,
    questions,
)

import numpy as np
import tetrax
from tetrax import lax
from tetrax.sharding import Mesh

EXPECTED: dict[str, str] = json.loads(ORACLE.read_text())
P = tetrax.P

# Where JAX has an error of another kind, by accident of where it notices (out of range axes, names
# that are not bound, strings), or refuses what works here.
OTHER_ERRORS = {
    "mistake | sm(lambda v: psum(v, 'q'), P('i'), P())(x)",
    "mistake | sm(lambda v: lax.cond(v.sum() > 0, lambda: 1.0, lambda: v.sum()), P('i'), P())(x)",
    "mistake | pmap(lambda v: v, in_axes=2)(x)",
    "mistake | pmap(lambda v: v)('text')",
    "mistake | pmap(lambda v: psum(v, 'i', axis_index_groups=[[0, 1]]), 'i')(x)",
    "mistake | lax.pcast(x, 'i', to='varying')",
}


@pytest.fixture(scope="module")
def asked() -> dict[str, Callable[[], Any]]:
    return dict(questions(names_of("tetrax")))


def test_nothing_is_left_out(asked: dict[str, Any]):
    assert asked.keys() == EXPECTED.keys()


KINDS = sorted({name.split(" | ")[0] for name in EXPECTED})


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_jax(kind: str, asked: dict[str, Callable[[], Any]]):
    names = names_of("tetrax")
    different = []
    for name, run in asked.items():
        if name.split(" | ")[0] != kind or name in OTHER_ERRORS:
            continue
        answer, expected = answer_of(names, run), EXPECTED[name]
        # What JAX has not (pbroadcast on CPUs, ppermute in part under vmap, derivatives of
        # all_to_all between axes) is held against NumPy below.
        more = expected.startswith("error") and kind != "mistake"
        if answer != expected and not (more and not answer.startswith("error")):
            different.append(f"{name}: {answer} instead of {expected}")
    assert not different, "\n".join(different[:20])


@pytest.mark.parametrize("name", sorted(OTHER_ERRORS))
def test_mistakes_that_jax_calls_otherwise(name: str, asked: dict[str, Callable[[], Any]]):
    assert EXPECTED[name].startswith("error")
    assert answer_of(names_of("tetrax"), asked[name]).startswith("error")


def test_sums_by_shadows_are_the_same(asked: dict[str, Callable[[], Any]]):
    names = names_of("tetrax")
    kinds = ("3 tracked | psum", "semantics | grad")
    known = [name for name, answer in EXPECTED.items() if not answer.startswith("error")]
    chosen = [name for name in known if name.startswith(kinds)]
    assert len(chosen) > 20
    before = tetrax.config.overlap_collectives
    tetrax.config.update("overlap_collectives", "always")
    try:
        for name in chosen:
            assert answer_of(names, asked[name]) == EXPECTED[name], name
    finally:
        tetrax.config.update("overlap_collectives", before)


# -- whole arrays ----------------------------------------------------------------------------------


def _all_to_all(x: np.ndarray, split: int, concat: int, tiled: bool) -> np.ndarray:
    n = len(x)
    parts = [np.split(row, n, axis=split) for row in x]
    if not tiled:
        parts = [[part.squeeze(split) for part in row] for row in parts]
    join = np.concatenate if tiled else np.stack
    return np.stack([join([parts[s][r] for s in range(n)], axis=concat) for r in range(n)])


def _moved(x: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    out = np.zeros_like(x)
    for source, destination in pairs:
        out[destination] = x[source]
    return out


def _same(x: np.ndarray, value: np.ndarray) -> np.ndarray:
    return np.broadcast_to(value, (len(x), *value.shape))


def _scattered(x: np.ndarray, axis: int, tiled: bool) -> np.ndarray:
    parts = np.split(x.sum(0), len(x), axis=axis)
    return np.stack(parts if tiled else [part.squeeze(axis) for part in parts])


Both = tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]


def _linear(n: int) -> dict[str, Both]:
    """What a device does with n x n numbers, and what that is for all of them; all are linear."""
    cycle = [(k, (k + 1) % n) for k in range(n)]
    found: dict[str, Both] = {
        "psum": (lambda v: lax.psum(v, "i"), lambda x: _same(x, x.sum(0))),
        "pmean": (lambda v: lax.pmean(v, "i"), lambda x: _same(x, x.mean(0))),
        "pbroadcast": (lambda v: lax.pbroadcast(v, "i", 1), lambda x: _same(x, x[1])),
        "ppermute": (lambda v: lax.ppermute(v, "i", cycle), lambda x: _moved(x, cycle)),
        "in part": (lambda v: lax.ppermute(v, "i", cycle[1:]), lambda x: _moved(x, cycle[1:])),
        "to itself": (
            lambda v: lax.ppermute(v, "i", [(0, 0)]),
            lambda x: _moved(x, [(0, 0)]),
        ),
    }
    for at in (0, 1, 2):
        found[f"all_gather {at}"] = (
            lambda v, at=at: lax.all_gather(v, "i", axis=at),
            lambda x, at=at: _same(x, np.stack(list(x), at)),
        )
    for at in (0, 1):
        found[f"all_gather tiled {at}"] = (
            lambda v, at=at: lax.all_gather(v, "i", axis=at, tiled=True),
            lambda x, at=at: _same(x, np.concatenate(list(x), at)),
        )
        for tiled in (False, True):
            found[f"psum_scatter {at} {tiled}"] = (
                lambda v, a=at, t=tiled: lax.psum_scatter(v, "i", scatter_dimension=a, tiled=t),
                lambda x, a=at, t=tiled: _scattered(x, a, t),
            )
            for to in (0, 1):
                found[f"all_to_all {at} {to} {tiled}"] = (
                    lambda v, a=at, b=to, t=tiled: lax.all_to_all(v, "i", a, b, tiled=t),
                    lambda x, a=at, b=to, t=tiled: _all_to_all(x, a, b, t),
                )
    return found


def _maps(n: int) -> dict[str, Callable[[Any], Any]]:
    mesh = Mesh(np.array(tetrax.devices()[:n]), ("i",))

    def sharded(f: Any, check_vma: bool) -> Any:
        return tetrax.shard_map(
            lambda x: f(x[0])[None],
            mesh=mesh,
            in_specs=P("i"),
            out_specs=P("i"),
            check_vma=check_vma,
        )

    return {
        "pmap": lambda f: tetrax.pmap(f, "i"),
        "vmap": lambda f: tetrax.vmap(f, axis_name="i"),
        "tracked": lambda f: sharded(f, True),
        "untracked": lambda f: sharded(f, False),
    }


@pytest.mark.parametrize("mapping", ["pmap", "vmap", "tracked", "untracked"])
@pytest.mark.parametrize("op", list(_linear(2)))
def test_linear_collectives_and_their_transposes(op: str, mapping: str):
    for n in (3,) if mapping == "vmap" else (2, 3):
        f, whole = _linear(n)[op]
        mapped = _maps(n)[mapping](f)
        x = operand(n, n, n)
        expected = whole(x.astype(np.float64))
        out, back = tetrax.vjp(mapped, x)
        np.testing.assert_array_equal(out, expected)
        # <ct, A e> for every basis vector e: all numbers are whole, so the sums are exact.
        ct = ((np.arange(expected.size) % 5 - 2) * 6).reshape(expected.shape)
        basis = np.eye(x.size).reshape(x.size, *x.shape)
        gradient = np.array([(ct * whole(e)).sum() for e in basis]).reshape(x.shape)
        np.testing.assert_allclose(back(ct.astype(np.float32))[0], gradient, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "complex128"])
def test_wide_elements(dtype: str):
    with tetrax.enable_x64(True):
        x = (np.arange(12).reshape(4, 3) * 3 - 7).astype(dtype)
        total, gathered, moved = tetrax.pmap(
            lambda v: (
                lax.psum(v, "i"),
                lax.all_gather(v, "i"),
                lax.ppermute(v, "i", [(0, 3), (3, 0)]),
            ),
            "i",
        )(x)
        assert total.dtype == gathered.dtype == moved.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(total, _same(x, x.sum(0)))
        np.testing.assert_array_equal(gathered, _same(x, x))
        np.testing.assert_array_equal(moved, _moved(x, [(0, 3), (3, 0)]))


# -- several names, of which some are batch axes ---------------------------------------------------

NAMED = {
    "all_gather": lambda v, names: lax.all_gather(v, names, axis=1),
    "all_gather tiled": lambda v, names: lax.all_gather(v, names, axis=1, tiled=True),
    "psum_scatter": lambda v, names: lax.psum_scatter(v, names, scatter_dimension=1),
    "psum_scatter tiled": lambda v, names: lax.psum_scatter(v, names, tiled=True),
    "all_to_all": lambda v, names: lax.all_to_all(v, names, 0, 1),
    "all_to_all tiled": lambda v, names: lax.all_to_all(v, names, 0, 1, tiled=True),
    "psum": lax.psum,
    "pmax": lax.pmax,
}


@pytest.mark.parametrize("names", [("i", "j"), ("j", "i")])
@pytest.mark.parametrize("op", list(NAMED))
def test_names_of_which_some_are_batch_axes(op: str, names: tuple[str, str]):
    f = lambda v: NAMED[op](v, names)
    x = operand(2, 3, 6, 6)
    mesh = tetrax.make_mesh((2, 3), ("i", "j"))
    both = P("i", "j")
    part = lambda v: f(v[0, 0])[None, None]
    expected = tetrax.shard_map(part, mesh=mesh, in_specs=both, out_specs=both)(x)
    vmaps = tetrax.vmap(tetrax.vmap(f, axis_name="j"), axis_name="i")
    inside = tetrax.pmap(tetrax.vmap(f, axis_name="j"), "i")
    outside = tetrax.vmap(tetrax.pmap(f, "j"), axis_name="i")
    for mapped in (vmaps, inside, outside):
        np.testing.assert_array_equal(mapped(x), expected)


def test_groups_and_parts_of_names_that_vmap_refuses():
    groups = {"axis_index_groups": [[0, 2], [1, 3]]}
    x = operand(4, 4, 4)
    for f in (
        lambda v: lax.all_gather(v, "i", **groups),
        lambda v: lax.psum_scatter(v, "i", tiled=True, **groups),
        lambda v: lax.all_to_all(v, "i", 0, 1, tiled=True, **groups),
    ):
        with pytest.raises(NotImplementedError, match="axis_index_groups not supported in vmap"):
            tetrax.vmap(f, axis_name="i")(x)
    permuted = tetrax.vmap(lambda v: lax.ppermute(v, ("i", "j"), [(0, 1)]), axis_name="j")
    with pytest.raises(NotImplementedError, match="one axis after the other"):
        tetrax.pmap(permuted, "i")(x)


def test_cotangents_of_what_varies_are_summed_though_they_are_equal():
    """The seed 1 of a loss that varies is the same for all, but is one for each device."""
    mesh = Mesh(np.array(tetrax.devices()[:4]), ("i",))
    x = operand(4, 3)
    inner = tetrax.grad(lambda v: (lax.psum(v, "i") * 2 + v).sum())
    mapped = tetrax.shard_map(inner, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    np.testing.assert_array_equal(mapped(x), np.full((4, 3), 4 * 2 + 1))


# -- bits ------------------------------------------------------------------------------------------

BITS = """
import hashlib, numpy as np, tetrax
from tetrax import lax
x = np.sin(np.arange(8 * 3000.0)).reshape(8, 3000).astype(np.float32)
def step(w, v):
    y = lax.scan(lambda c, _: (c + lax.pmean(c * v, "i") * w, c[:5]), v, None, length=3)[1]
    return lax.psum((y * w[:5]).sum(), "i")
f = tetrax.pmap(tetrax.value_and_grad(step), "i", in_axes=(None, 0))
outs = [np.asarray(y) for y in (*f(x[0], x), *f(x[1], x))]
scattered = tetrax.pmap(lambda v: lax.psum_scatter(v, "i", tiled=True), "i")(x)
outs.append(np.asarray(scattered))
print(hashlib.sha256(b"".join(y.tobytes() for y in outs)).hexdigest())
"""


def test_threads_and_shadows_change_no_bit():
    def digest(**environment: str) -> str:
        path = os.pathsep.join(p for p in sys.path if p)
        settings = {"PYTHONPATH": path, "TETRAX_NUM_CPU_DEVICES": "8", **environment}
        done = subprocess.run(
            [sys.executable, "-c", BITS],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    expected = digest(TETRAX_NUM_THREADS="1")
    assert digest(TETRAX_NUM_THREADS="2") == expected
    assert digest(TETRAX_NUM_THREADS="2", TETRAX_OVERLAP_COLLECTIVES="always") == expected
