"""Meshes, specs and shardings against what real JAX says of them."""

from __future__ import annotations

import json

import pytest
from tests.devices.questions import ORACLE, all_answers, names_of

EXPECTED = json.loads(ORACLE.read_text())
KINDS = ("repr", "facts", "parts", "alike", "value", "spec", "same", "error", "picture")


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    return dict(all_answers(names_of("tetrax")))


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_jax(answers: dict[str, str], kind: str):
    asked = [name for name in EXPECTED if name.startswith(kind + " ")]
    assert asked
    different = [
        f"{name}: {answers.get(name)} instead of {EXPECTED[name]}"
        for name in asked
        if answers.get(name) != EXPECTED[name]
    ]
    assert not different, "\n".join(different[:10])


def test_nothing_is_left_out(answers: dict[str, str]):
    assert answers.keys() == EXPECTED.keys()
    assert {name.split()[0] for name in EXPECTED} == set(KINDS)
