"""The examples in docstrings run and give what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import tetrax

PACKAGE = Path(tetrax.__file__).resolve().parent


def modules_with_examples() -> list[str]:
    """Return the modules whose text holds an example, by dotted name."""
    return [
        ".".join(("tetrax", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
            ".__init__"
        )
        for path in sorted(PACKAGE.rglob("*.py"))
        if ">>> " in path.read_text()
    ]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples(name):
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=options)
    assert tried and not failed
