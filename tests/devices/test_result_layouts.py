"""How results are cut where nobody says it, against real JAX."""

from __future__ import annotations

import json

from tests.devices.result_layouts import ORACLE, answers

EXPECTED = json.loads(ORACLE.read_text())


def test_results_are_cut_as_those_of_jax():
    found = dict(answers("tetrax"))
    assert found.keys() == EXPECTED.keys()
    different = [
        f"{name}: {found[name]} instead of {EXPECTED[name]}"
        for name in EXPECTED
        if found[name] != EXPECTED[name]
    ]
    assert not different, "\n".join(different)
