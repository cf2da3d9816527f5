"""What importing loads, and that whatever is loaded late is there when it is asked for."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tetrax
from tetrax._lazy import deferred, lazy_module

FOLDER = Path(tetrax.__file__).parent


def run(code: str) -> str:
    """What a fresh process prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(FOLDER.parent)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import tetrax", ["tetrax.compiler", "tetrax.ops", "tetrax.numpy", "scipy", "llvmlite"]),
        (
            "import tetrax.numpy as jnp; jnp.sum(jnp.arange(3) + 1)",
            ["scipy", "llvmlite.binding", "tetrax.compiler.pipeline", "opt_einsum"],
        ),
    ],
)
def test_what_is_not_loaded(code, absent):
    loaded = run(f"{code}\nimport sys; print(*sys.modules)").split()
    assert not set(absent) & set(loaded)


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("print(x + 1)", "[1 2 3]"),
        ("print(2 ** x, -x)", "[1 2 4] [ 0 -1 -2]"),
        ("print(x[1], x.sum(), x.T.shape)", "1 3 (3,)"),
        ("print(*x)", "0 1 2"),
        ("print(1 in x, (x == 1).any())", "True True"),
        ("print(hasattr(x, 'nothing'), x.__array_namespace__().__name__)", "False tetrax.numpy"),
        ("import numpy; print(numpy.float32(2) * x)", "[0. 2. 4.]"),
    ],
)
def test_operators_before_the_front_end_is_loaded(code, printed):
    made = "from tetrax import lax; import sys; x = lax.iota('int32', 3)"
    check = "assert 'tetrax.numpy' not in sys.modules"
    assert run(f"{made}\n{check}\n{code}") == printed


def test_transformations_before_the_front_end_is_loaded():
    assert run("import tetrax; print(tetrax.grad(lambda x: x * x)(3.0))") == "6.0"
    code = (
        "import numpy; from tetrax import jit, vmap; print(jit(vmap(lambda x: -x))(numpy.ones(1)))"
    )
    assert run(code) == "[-1.]"


def test_every_public_name_is_there():
    for name in tetrax.__all__:
        assert getattr(tetrax, name) is not None
    for name, module in tetrax._NAMES.items():
        assert getattr(tetrax, name) is getattr(sys.modules[module], name)
    assert set(tetrax.__all__) <= set(dir(tetrax))
    with pytest.raises(AttributeError, match="no attribute 'gradient'"):
        tetrax.gradient  # noqa: B018


def test_the_stub_says_the_same():
    stub = ast.parse((FOLDER / "__init__.pyi").read_text())
    names = set()
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    assert {*tetrax.__all__, *tetrax._NAMES} <= names
    for name in names - {"Config"}:
        assert hasattr(tetrax, name), name


def test_lazy_modules():
    fractions = lazy_module("fractions")
    assert fractions.Fraction(1, 2) == deferred("fractions", "Fraction")(2, 4)
    assert not hasattr(lazy_module("no_such_module"), "__path__")
    with pytest.raises(ModuleNotFoundError):
        lazy_module("no_such_module").anything  # noqa: B018
