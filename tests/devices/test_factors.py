"""Every operation on operands that are cut along each of its factors, generated from the registry.

Two devices each do a part; the outcome is that of one device, cut as the factors say, and nothing
is exchanged but the parts of what is reduced over a factor that is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.devices.factor_samples import more_samples
from tests.devices.layouts import mesh_of
from tests.ops.rules import Sample, assert_close, operands, samples

import numpy as np
import tetrax
from tetrax import dtypes
from tetrax.compiler.device_groups import DeviceAxes
from tetrax.compiler.partition.choose import choose, layout_of
from tetrax.compiler.sharded import spec_of_layout
from tetrax.ir.layout import Factors, is_whole
from tetrax.ops.base import REGISTRY, Elementwise
from tetrax.runtime.array import make_array
from tetrax.sharding import NamedSharding

NAMES = sorted(REGISTRY)
WHOLE = {
    "rng_bit_generator": "one state counts for all bits; random_bits is what can be cut",
    "rng_uniform": "draws from the generator of the process: one device does, for all",
    "reduce_xor": "has no collective of its own; its other axes are cut",
}
"""Operations, or parts of them, that are not cut, each with the reason."""

MESH = mesh_of([0, 1], "x")
AXES = DeviceAxes(("x",), (2,))


@pytest.fixture(autouse=True)
def x64():
    with tetrax.enable_x64(True):
        yield


def outs_of(sample: Sample) -> list[Any]:
    return sample.primitive.out_avals(list(sample.avals), sample.kwargs)


def factors_of(sample: Sample) -> Factors | None:
    return sample.primitive.factors(list(sample.avals), outs_of(sample), sample.kwargs)


def chosen(name: str) -> Iterator[Sample]:
    """One sample per kind of elementwise operations (whose factors are the same), else all."""
    yield from more_samples(name)
    found = samples(name)
    yield from [next(iter(found))] if isinstance(REGISTRY[name], Elementwise) else found


def cuts_of(name: str) -> dict[Any, tuple[Sample, Factors, int]]:
    """What to cut: each factor of each sample that can be halved, once per role it plays."""
    cases: dict[Any, tuple[Sample, Factors, int]] = {}
    for sample in chosen(name):
        found = factors_of(sample)
        if found is None:
            continue
        for factor, size in found.sizes.items():
            wanted = [layout_of(dims, {factor: ("x",)}) for dims in found.results]
            given = [layout_of(dims, {factor: ("x",)}) for dims in found.operands]
            if size % 2 or not size or factor in found.whole:
                continue
            if choose(found, given, wanted, AXES) != {factor: ("x",)}:
                continue  # layouts cannot say it
            role = (
                [axis for axis in (*found.operands, *found.results) for axis in axis],
                factor,
                *(str(aval.dtype) for aval in sample.avals if sample.primitive.multiple_results),
            )
            cases.setdefault(str(role), (sample, found, factor))
    return cases


def run_cut(sample: Sample, found: Factors, factor: int) -> None:
    cuts = {factor: ("x",)}
    arrays = [
        make_array(v, dtype=a.dtype if isinstance(a.dtype, dtypes.ExtendedDType) else None)
        for v, a in zip(operands(sample), sample.avals, strict=True)
    ]
    layouts = [layout_of(dims, cuts) for dims in found.operands]
    placed = [
        tetrax.device_put(x, NamedSharding(MESH, spec_of_layout(layout)))
        for x, layout in zip(arrays, layouts, strict=True)
    ]
    expected_layouts = [layout_of(dims, cuts) for dims in found.results]
    shardings = [NamedSharding(MESH, spec_of_layout(layout)) for layout in expected_layouts]
    primitive = sample.primitive

    def run(*xs: Any) -> list[Any]:
        out = primitive.bind(*xs, **sample.kwargs)
        return list(out) if primitive.multiple_results else [out]

    expected = tetrax.jit(run)(*arrays)
    own = all(is_whole(layout) for layout in layouts)
    jitted = tetrax.jit(run, out_shardings=shardings) if own else tetrax.jit(run)
    what = f"{sample} along factor {factor}"
    lowered = jitted.lower(*placed)
    report = lowered.sharding_report()
    reduced = len(expected) if factor in found.reduced else 0
    assert [move.kind for move in report.moves] == ["all_reduce"] * reduced, f"{what}: {report}"
    for got, want, sharding in zip(jitted(*placed), expected, shardings, strict=True):
        assert got.sharding == sharding, (what, got.sharding, sharding)
        assert got.dtype == want.dtype, what
        if reduced and found.reduced[factor] == "sum":
            # The same terms in another order.
            assert_close(got._value, want._value, max(primitive.facts.ulp, 8), what)
        else:
            np.testing.assert_array_equal(got._value, want._value, err_msg=what)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WHOLE])
def test_parts_make_up_the_whole(name: str):
    cases = cuts_of(name)
    assert cases, f"{name} is not cut in any of its samples"
    for case in cases.values():
        run_cut(*case)


def test_reasons_are_still_true():
    uncut = {name for name in NAMES if all(factors_of(s) is None for s in samples(name))}
    assert uncut <= WHOLE.keys()
    assert WHOLE.keys() <= REGISTRY.keys()
