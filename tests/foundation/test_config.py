"""Settings: precedence, thread-local scopes, spellings, and what of them cache keys hold."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading

import jax
import pytest

from tetrax.config import Config, config, enable_x64, trace_context

# `tetrax.config` itself is the object of that name.
settings = importlib.import_module("tetrax.config")


@pytest.fixture
def restored():
    """Put back what a test sets for good."""
    before = {name: flag.cell[0] for name, flag in vars(Config).items() if hasattr(flag, "cell")}
    yield
    for name, value in before.items():
        config.update(name, value)


def test_a_scope_sets_a_flag_and_puts_it_back():
    assert config.enable_x64 is False
    with enable_x64(True):
        assert config.enable_x64 is True and config.jax_enable_x64 is True
        with enable_x64(False):
            assert config.enable_x64 is False
        assert config.enable_x64 is True
    assert config.enable_x64 is False
    with pytest.raises(KeyError), enable_x64():
        assert config.enable_x64 is True
        raise KeyError
    assert config.enable_x64 is False


def test_a_scope_decorates_functions():
    @enable_x64()
    def inside():
        return config.enable_x64

    assert inside() and inside() and not config.enable_x64


def test_scopes_belong_to_their_thread():
    seen = []
    with enable_x64(True):
        thread = threading.Thread(target=lambda: seen.append((config.enable_x64, trace_context())))
        thread.start()
        thread.join()
    assert seen == [(False, trace_context())]


def test_update_reaches_every_thread(restored):
    config.update("jax_enable_x64", True)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(config.enable_x64))
    thread.start()
    thread.join()
    assert seen == [True] and config.enable_x64
    config.enable_x64 = False
    assert not config.enable_x64
    config.jax_enable_x64 = True
    assert config.read("jax_enable_x64") and config.values["jax_enable_x64"]


def test_trace_context_follows_the_traced_flags(restored):
    plain = trace_context()
    with enable_x64():
        wide = trace_context()
        assert wide != plain and hash(wide) != hash(plain)
        config.update("random_seed_offset", 7)  # another thread may do so while this one is inside
        assert trace_context() not in (plain, wide)
    assert trace_context() != plain
    config.update("random_seed_offset", 0)
    assert trace_context() == plain
    with settings.log_compiles():
        assert trace_context() == plain


def test_unknown_names_and_bad_values_say_what_would_do():
    with pytest.raises(AttributeError, match="jax_enable_x64"):
        config.update("jax_enable_x65", True)
    with pytest.raises(AttributeError, match="debug_nans"):
        _ = config.debug_nan
    with pytest.raises(ValueError, match=r"'standard', 'strict'"):
        config.update("numpy_dtype_promotion", "lax")
    with pytest.raises(ValueError, match="enable_x64"):
        enable_x64("perhaps")
    with pytest.raises(TypeError, match="needs the value"):
        settings.numpy_dtype_promotion()
    with pytest.raises(ValueError, match="highest"):
        settings.default_matmul_precision("exact")


def test_every_flag_of_jax_is_accepted():
    assert set(jax.config.values) <= set(config.values)
    for name in jax.config.values:
        assert config.read(name) == config.values[name]


def test_flags_without_effect_are_remembered():
    config.update("jax_platforms", "cpu")
    assert config.jax_platforms == "cpu"
    config.update("jax_platforms", None)


def test_context_managers_of_jax_exist():
    # threefry_gpu and the like live in jax's namespace as State objects; so do these.
    state = type(jax.enable_x64)
    names = {name for name in dir(jax) if isinstance(getattr(jax, name), state)}
    missing = {
        name for name in names if not isinstance(getattr(settings, name, None), settings.Flag)
    }
    assert not missing


def test_user_contexts_take_part_in_the_trace_context():
    mode = settings.make_user_context("train")
    before = trace_context()
    with mode("eval"):
        assert mode.value == "eval" and trace_context() != before
    assert mode.value == "train" and trace_context() == before


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "False"),
        ({"JAX_ENABLE_X64": "1"}, "True"),
        ({"TETRAX_ENABLE_X64": "true"}, "True"),
        ({"TETRAX_ENABLE_X64": "0", "JAX_ENABLE_X64": "1"}, "False"),
    ],
)
def test_the_environment_sets_flags(variables, expected):
    clean = {name: value for name, value in os.environ.items() if not name.endswith("_X64")}
    program = "from tetrax.config import config; print(config.enable_x64)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**clean, "PYTHONPATH": os.pathsep.join(sys.path), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == expected
