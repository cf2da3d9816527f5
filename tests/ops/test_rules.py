"""Every registered operation through every rule, generated from the registry.

Per operation, sample and dtype: the eager value against real JAX's primitive of the same name; the
compiled value against the eager one; declared against actual types; jvp against central
differences in float64; reverse against forward mode; derivatives of derivatives; vmap against
stacked calls. What is not tested is listed with its reason at the end of the run.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from typing import Any

import jax
import jax.extend.core.primitives as jax_primitives
import pytest
from tests.ops.rules import Sample, assert_close, excluded, operands, samples

import numpy as np
import tetrax
from tetrax import dtypes
from tetrax.ops.base import REGISTRY
from tetrax.runtime.array import make_array
from tetrax.tracing.primitive import Primitive
from tetrax.transforms.vmap import AxisData, batch

NAMES = sorted(REGISTRY)


@pytest.fixture(autouse=True)
def x64():
    with tetrax.enable_x64(True), jax.enable_x64(True):
        yield


def skip_if_excluded(name: str, rule: str) -> None:
    reason = excluded(name, rule)
    if reason is not None:
        pytest.skip(f"{name} {rule}: {reason}")


def arrays(sample: Sample, values: list[np.ndarray]) -> list[Any]:
    return [
        make_array(v, dtype=a.dtype if isinstance(a.dtype, dtypes.ExtendedDType) else None)
        for v, a in zip(values, sample.avals, strict=True)
    ]


def call(sample: Sample):
    """The operation as a function of its operands that gives a list."""
    primitive = sample.primitive

    def run(*xs: Any) -> list[Any]:
        out = primitive.bind(*xs, **sample.kwargs)
        return list(out) if primitive.multiple_results else [out]

    return run


def storage(x: Any) -> np.ndarray:
    return x._value


@pytest.mark.parametrize("name", NAMES)
def test_declared_types_and_compiled_values(name):
    for sample in samples(name):
        xs = arrays(sample, operands(sample))
        run = call(sample)
        eager = run(*xs)
        declared = sample.primitive.out_avals([x.aval for x in xs], sample.kwargs)
        compiled = tetrax.jit(run)(*xs)
        for e, c, d in zip(eager, compiled, declared, strict=True):
            assert e.shape == d.shape and e.dtype == d.dtype, str(sample)
            assert c.shape == d.shape and c.dtype == d.dtype, str(sample)
            if excluded(name, "compiled") is None:
                assert_close(storage(c), storage(e), sample.primitive.facts.ulp, str(sample))


def jax_primitive(name: str) -> Any:
    return getattr(jax_primitives, f"{name}_p", None)


@pytest.mark.parametrize("name", NAMES)
def test_eager_values_against_jax(name):
    skip_if_excluded(name, "jax")
    primitive = jax_primitive(name)
    if primitive is None:
        pytest.skip(f"{name} jax: real JAX has no primitive of this name")
    for sample in samples(name):
        if any(isinstance(a.dtype, dtypes.ExtendedDType) for a in sample.avals):
            continue
        values = operands(sample)
        found = call(sample)(*arrays(sample, values))
        try:
            expected = primitive.bind(*map(jax.numpy.asarray, values), **jax_params(sample))
        except TypeError as error:
            # We take a few dtypes more than JAX does (4-bit integers).
            assert "does not accept dtype" in str(error), str(sample)
            continue
        expected = expected if primitive.multiple_results else [expected]
        for f, e in zip(found, expected, strict=True):
            # Both round correctly to a few units; 2x for the sum of the two errors.
            facts = sample.primitive.facts
            assert_close(f, e, facts.jax_ulp or 2 * facts.ulp, str(sample))


def jax_params(sample: Sample) -> dict[str, Any]:
    """Our parameters as JAX's primitives want them: its own classes instead of ours."""
    return {key: convert_parameter(value) for key, value in sample.params}


def convert_parameter(value: Any) -> Any:
    if isinstance(value, Primitive):
        return jax_primitive(value.name)
    kind = type(value).__name__
    theirs = getattr(jax.lax, kind, None)
    if theirs is None or (not hasattr(value, "_fields") and not hasattr(value, "name")):
        return value
    if hasattr(value, "_fields"):
        return theirs(*value)
    if hasattr(value, "__dataclass_fields__"):
        return theirs(**{f: getattr(value, f) for f in value.__dataclass_fields__})
    return theirs[value.name]


def inexact64(sample: Sample) -> list[int]:
    """Positions of the float64 operands, if all inexact operands are float64."""
    found = [i for i, a in enumerate(sample.avals) if dtypes.issubdtype(a.dtype, np.inexact)]
    return found if all(sample.avals[i].dtype == np.float64 for i in found) else []


def derivative_samples(name: str) -> list[tuple[Sample, list[int]]]:
    """Samples whose operands are float64 (float32 ones are widened), with those operands."""
    result = []
    for sample in samples(name):
        wide = tuple(
            a.update(dtype=np.float64) if a.dtype == np.float32 else a for a in sample.avals
        )
        sample = Sample(sample.name, wide, sample.params)
        positions = inexact64(sample)
        if positions and all(a.size for a in wide) and sample not in [s for s, _ in result]:
            result.append((sample, positions))
    return result[:6]


def partial(sample: Sample, values: list[Any], positions: list[int]):
    """The operation as a function of its float operands, keeping its float results."""
    run = call(sample)

    def f(*xs: Any) -> list[Any]:
        full = list(values)
        for position, x in zip(positions, xs, strict=True):
            full[position] = x
        return [out for out in run(*full) if dtypes.issubdtype(out.dtype, np.inexact)]

    return f


def is_declared(name: str, error: NotImplementedError) -> bool:
    """Whether the operation's facts say that some samples raise this error."""
    beginning = excluded(name, "unsupported")
    return beginning is not None and str(error).startswith(beginning)


def directional(f: Any, xs: list[np.ndarray], ts: list[np.ndarray], h: float) -> list[np.ndarray]:
    """Central differences: the error is of order h² plus rounding over h."""
    plus = f(*[make_array(x + h * t) for x, t in zip(xs, ts, strict=True)])
    minus = f(*[make_array(x - h * t) for x, t in zip(xs, ts, strict=True)])
    return [(np.asarray(p) - np.asarray(m)) / (2 * h) for p, m in zip(plus, minus, strict=True)]


def point(sample: Sample, positions: list[int]):
    values = operands(sample, seed=1)
    rng = np.random.default_rng(2)
    xs = [values[i] for i in positions]
    ts = [rng.standard_normal(x.shape) for x in xs]
    return arrays(sample, values), xs, ts


@pytest.mark.parametrize("name", NAMES)
def test_jvp_against_differences(name):
    skip_if_excluded(name, "jvp")
    for sample, positions in derivative_samples(name):
        values, xs, ts = point(sample, positions)
        f = partial(sample, values, positions)
        if not f(*map(make_array, xs)):
            continue
        try:
            _, tangents = tetrax.jvp(f, tuple(map(make_array, xs)), tuple(map(make_array, ts)))
        except NotImplementedError as error:
            assert is_declared(name, error), str(sample)
            continue
        expected = directional(f, xs, ts, 1e-6)
        for t, e in zip(tangents, expected, strict=True):
            np.testing.assert_allclose(t, e, rtol=2e-6, atol=2e-7, err_msg=str(sample))


@pytest.mark.parametrize("name", NAMES)
def test_reverse_is_the_transpose_of_forward(name):
    skip_if_excluded(name, "jvp")
    skip_if_excluded(name, "reverse")
    for sample, positions in derivative_samples(name):
        values, xs, ts = point(sample, positions)
        f = partial(sample, values, positions)
        primals = tuple(map(make_array, xs))
        rng = np.random.default_rng(3)
        cts = [make_array(rng.standard_normal(o.shape).astype(o.dtype)) for o in f(*primals)]
        if not cts:
            continue
        try:
            _, pullback = tetrax.vjp(f, *primals)
            gradients = pullback(cts)
        except NotImplementedError as error:
            assert is_declared(name, error), str(sample)
            continue
        _, tangents = tetrax.jvp(f, primals, tuple(map(make_array, ts)))
        forward = sum(
            float((np.asarray(c) * np.asarray(t)).real.sum())
            for c, t in zip(cts, tangents, strict=True)
        )
        backward = sum(float((np.asarray(g) * t).sum()) for g, t in zip(gradients, ts, strict=True))
        np.testing.assert_allclose(forward, backward, rtol=1e-9, atol=1e-11, err_msg=str(sample))


@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives(name):
    skip_if_excluded(name, "jvp")
    skip_if_excluded(name, "reverse")
    skip_if_excluded(name, "second")
    for sample, positions in derivative_samples(name)[:2]:
        values, xs, ts = point(sample, positions)
        f = partial(sample, values, positions)
        primals = tuple(map(make_array, xs))
        if not f(*primals):
            continue

        def gradient(*ys: Any, f: Any = f) -> list[Any]:
            outs, pullback = tetrax.vjp(f, *ys)
            return list(pullback([o * 0 + 1 for o in outs]))

        try:
            _, tangents = tetrax.jvp(gradient, primals, tuple(map(make_array, ts)))
        except NotImplementedError as error:
            assert is_declared(name, error), str(sample)
            continue
        expected = directional(gradient, xs, ts, 1e-5)
        for t, e in zip(tangents, expected, strict=True):
            np.testing.assert_allclose(t, e, rtol=1e-5, atol=1e-5, err_msg=str(sample))


@pytest.mark.parametrize("name", NAMES)
def test_vmap_is_stacked_calls(name):
    skip_if_excluded(name, "vmap")
    for sample in list(samples(name))[:12]:
        count = len(sample.avals)
        if not count:
            continue
        run = call(sample)
        stacks = [operands(sample, seed) for seed in (1, 2)]
        for batched in itertools.islice(itertools.product((False, True), repeat=count), 1, 8):
            check_batch(sample, run, stacks, batched, last=False)
        check_batch(sample, run, stacks, (True,) * count, last=True)


def check_batch(
    sample: Sample, run: Any, stacks: Any, batched: tuple[bool, ...], last: bool
) -> None:
    calls = [[stacks[k if b else 0][i] for i, b in enumerate(batched)] for k in range(2)]
    expected = [run(*arrays(sample, values)) for values in calls]
    joined, dims = [], []
    for i, b in enumerate(batched):
        axis = sample.avals[i].ndim if last else 0
        value = np.stack([calls[0][i], calls[1][i]], axis) if b else calls[0][i]
        joined.append(value)
        dims.append(axis if b else None)
    typed = Sample(
        sample.name,
        tuple(a.update(shape=v.shape) for a, v in zip(sample.avals, joined, strict=True)),
        sample.params,
    )
    outs, out_dims, _ = batch(
        lambda *xs: (run(*xs), None), AxisData(None, 2), arrays(typed, joined), dims
    )
    for k, row in enumerate(expected):
        for out, dim, want in zip(outs, out_dims, row, strict=True):
            got = storage(out) if dim is None else np.take(storage(out), k, dim)
            assert_close(got, storage(want), sample.primitive.facts.ulp, f"{sample} {batched}")


def test_every_operation_has_samples():
    missing = [name for name in NAMES if not list(samples(name))]
    assert not missing, f"operations without samples: {missing}"


def test_list_of_exclusions(capsys):
    """Nothing is left out in silence: the list, with reasons, is part of the output."""
    with capsys.disabled():
        for name in NAMES:
            for rule, reason in REGISTRY[name].facts.excluded:
                print(f"not tested: {name} {rule}: {reason}")


@pytest.mark.slow
def test_compiled_values_under_bounds_checks():
    """The native code of all samples once more, built with every access checked."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:xdist",
            __file__,
            "-k",
            "compiled_values and not bounds",
        ],
        env={**os.environ, "TETRAX_CHECK_BOUNDS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
