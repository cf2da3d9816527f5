"""Every public name of `jax.numpy` is there, with the same parameters."""

from __future__ import annotations

import inspect
import warnings

import jax
import jax.numpy
import pytest

import tetrax.numpy
from tetrax.tracing.value import Value

MODULES = {
    "numpy": (jax.numpy, tetrax.numpy),
    "linalg": (jax.numpy.linalg, tetrax.numpy.linalg),
    "fft": (jax.numpy.fft, tetrax.numpy.fft),
}
# Removed or deprecated in JAX 0.10.2, or modules.
ABSENT = {"fix", "linalg", "fft", "isin_"}


def public_names(module: object) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = [name for name in dir(module) if not name.startswith("_") and name not in ABSENT]
        return [name for name in names if hasattr(module, name)]


def parameters(function: object) -> list[tuple[str, object, object]] | None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    return [(p.name, p.kind, p.default) for p in signature.parameters.values()]


CASES = [
    pytest.param(theirs, ours, name, id=f"{label}.{name}")
    for label, (theirs, ours) in MODULES.items()
    for name in public_names(theirs)
]


@pytest.mark.parametrize(("theirs", "ours", "name"), CASES)
def test_name_and_parameters(theirs, ours, name):
    assert hasattr(ours, name), f"{name} is missing"
    other, mine = getattr(theirs, name), getattr(ours, name)
    if not callable(other) or isinstance(other, type) or isinstance(mine, tetrax.numpy.ufunc):
        return
    expected, got = parameters(other), parameters(mine)
    if expected is None or got is None or name in ("einsum",):
        return
    assert [entry[:2] for entry in got] == [entry[:2] for entry in expected]
    for (parameter, _, default), (_, _, wanted) in zip(got, expected, strict=True):
        assert repr(default) == repr(wanted), f"the default of {parameter}"


@pytest.mark.parametrize("name", [name for name in dir(jax.Array) if not name.startswith("_")])
def test_array_methods(name):
    concrete = tetrax.numpy.ones((1, 1))
    missing = {
        # About devices and layouts.
        *("device_buffer", "device_buffers", "format", "is_deleted", "platform", "traceback"),
        *("unsafe_buffer_pointer", "global_shards", "sharding", "device", "flat"),
    }
    if name in missing:
        pytest.skip("belongs to the runtime, or is refused on purpose")
    assert hasattr(concrete, name)
    other, mine = getattr(jax.Array, name), getattr(Value, name, None)
    if callable(other) and callable(mine):
        expected, got = parameters(other), parameters(mine)
        if expected and got:
            names = [entry[0] for entry in expected if entry[0] != "self"]
            assert [entry[0] for entry in got][1:] == names or [entry[0] for entry in got] == names
