"""Bounds on what compiled programs take: who goes first, and that what went comes back."""

from __future__ import annotations

import gc
from collections import OrderedDict

import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax.compiler import kept
from tetrax.higher_order import jit as jit_module
from tetrax.runtime import code_memory


@pytest.fixture(autouse=True)
def own_programs(monkeypatch):
    """Nothing else is kept, and the limit is as before afterwards."""
    tetrax.clear_caches()
    gc.collect()
    monkeypatch.setattr(kept, "_entries", OrderedDict())
    monkeypatch.setattr(kept, "_nbytes", 0)
    before = kept.statistics().limit_bytes
    yield
    kept.set_limit(before)


def sized(f, n):
    return float(f(jnp.ones(n)))


def test_programs_are_counted_while_they_live():
    before = kept.statistics()
    f = tetrax.jit(lambda x: x.sum())
    for n in range(1, 6):
        assert sized(f, n) == n
    now = kept.statistics()
    assert now.programs == before.programs + 5
    assert now.nbytes > before.nbytes + 5 * 8192
    del f
    gc.collect()
    assert kept.statistics().programs == before.programs
    assert kept.statistics().nbytes == before.nbytes


def test_the_oldest_go_and_come_back():
    traces = []
    f = tetrax.jit(lambda x: traces.append(len(x)) or x.sum())
    kept.set_limit(kept.statistics().nbytes + 10 * 10_000)
    for n in range(1, 31):
        assert sized(f, n) == n
    assert f._cache_size() < 20
    assert kept.statistics().nbytes <= kept.statistics().limit_bytes
    assert kept.statistics().released >= 10
    assert traces == list(range(1, 31))
    assert sized(f, 30) == 30
    assert sized(f, 29) == 29
    assert len(traces) == 30
    assert sized(f, 1) == 1
    assert traces[30:] == [1]


def test_what_is_used_stays():
    kept.set_limit(kept.statistics().nbytes + 10 * 10_000)
    traces = []
    f = tetrax.jit(lambda x: traces.append(len(x)) or x.sum())
    always = tetrax.jit(lambda x: traces.append("always") or x + 1)
    for n in range(1, 31):
        sized(f, n)
        always(jnp.ones(3))
        sized(f, 1)
    assert traces.count("always") == 1
    assert traces.count(1) == 1


def test_machine_code_goes_too():
    f = tetrax.jit(lambda x: jnp.sin(x).sum())
    sized(f, 3)
    gc.collect()
    before = code_memory.used_bytes()
    for n in range(10, 60):
        sized(f, n)
    grown = code_memory.used_bytes()
    f.clear_cache()
    gc.collect()
    assert grown > before
    assert code_memory.used_bytes() <= before


def test_large_eager_results_are_counted():
    before = kept.statistics().programs
    for n in range(40_000, 40_005):
        x = jnp.asarray(np.ones(n, np.float32))
        assert float(jnp.sum(jnp.exp(x))) > 0
    assert kept.statistics().programs >= before + 10
    tetrax.clear_caches()
    gc.collect()
    assert kept.statistics().programs <= before


def test_a_dropped_program_is_traced_again_when_it_is_needed(monkeypatch):
    monkeypatch.setattr(jit_module, "_MOST_PROGRAMS", 3)
    traces = []

    @tetrax.jit
    def f(x):
        traces.append(1)
        return (x * x).sum()

    for n in range(1, 8):
        assert sized(f, n) == n
    assert len(traces) == 7
    assert sized(f, 1) == 1
    assert len(traces) == 7  # compiled code needs no program
    np.testing.assert_array_equal(tetrax.grad(f)(jnp.ones(1)), [2])
    assert len(traces) == 8
    assert f.lower(jnp.ones(2)).text()
    assert len(traces) == 9
    assert float(tetrax.vmap(f)(jnp.ones((3, 7)))[0]) == 7
    assert len(traces) == 9  # the latest still has its program
