"""The page about large runs: what the example makes, and near what was published."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def example():
    path = ROOT / "examples" / "scaling_table.py"
    spec = importlib.util.spec_from_file_location("scaling_table_example", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_example_makes(example):
    assert (ROOT / "docs" / "scaling.md").read_text() == example.page()


def test_the_program_is_the_published_one(example):
    """Operations a word: 8 for each of the 540 billion parameters, the recomputation counted, and
    those of attention (Chowdhery et al., 2022, appendix B); and the collectives of its layout."""
    lowered = example.lowered_step(2, 256, 12)
    found = example.predict(lowered, example.CHIP, example.LINKS)
    words = 2 * 256 * example.PER_REPLICA * example.LENGTH
    attention = 16 * example.LAYERS * example.HEADS * example.HEAD * example.LENGTH
    expected = words * (8 * 540e9 + attention) / found.devices
    # The products that a layer ends with need no recomputation: a third of one part in four.
    assert found.flops == pytest.approx(expected, rel=0.1)
    kinds = {(move.kind, move.names) for move in lowered.sharding_report().moves if move.times > 1}
    assert kinds == {
        ("all_gather", ("data",)),
        ("reduce_scatter", ("data",)),
        ("all_reduce", ("pod",)),
        ("all_reduce", ("model",)),
    }


def test_the_order_of_what_was_reported(example):
    found = example.predict(example.lowered_step(2, 256, 12), example.CHIP, example.LINKS)
    assert example.REPORTED / 1.5 < found.utilisation < example.REPORTED * 1.5
