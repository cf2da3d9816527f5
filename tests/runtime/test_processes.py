"""The runtime in awkward processes: one thread, after fork, many threads, no cache folder."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp

SCRIPT = """
import tetrax, tetrax.numpy as jnp
print(float(tetrax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones(8))))
"""


# Child processes import the package that these tests test.
PACKAGE_FOLDER = os.path.dirname(os.path.dirname(tetrax.__file__))


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": PACKAGE_FOLDER, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_thread():
    out = run(SCRIPT, TETRAX_NUM_THREADS="1", OMP_NUM_THREADS="1")
    assert abs(float(out) - 8 * np.sin(1.0)) < 1e-5


def test_without_a_cache_folder(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    out = run(SCRIPT, TETRAX_CACHE_DIR=str(blocked))
    assert abs(float(out) - 8 * np.sin(1.0)) < 1e-5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_after_fork():
    code = """
import os, tetrax, tetrax.numpy as jnp
f = tetrax.jit(lambda x: jnp.sin(x) * 2)
f(jnp.ones(8))
pid = os.fork()
if pid == 0:
    ok = abs(float(f(jnp.ones(8))[0]) - 1.6829419) < 1e-6
    g = tetrax.jit(lambda x: jnp.cos(x).sum())
    ok = ok and abs(float(g(jnp.zeros(8))) - 8) < 1e-6
    os._exit(0 if ok else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert run(code).strip() == "0"


def test_many_python_threads():
    """Tracing, compiling and running at once, each thread its own and a shared function."""
    shared = tetrax.jit(lambda x: jnp.tanh(x).sum())
    expected = np.tanh(np.arange(10.0)).sum()
    errors = []

    def work(seed):
        try:
            own = tetrax.jit(lambda x: x * seed + 1)
            for _ in range(20):
                x = jnp.arange(10.0)
                assert abs(float(shared(x)) - expected) < 1e-5
                np.testing.assert_allclose(own(x), np.arange(10.0) * seed + 1)
                gradient = tetrax.grad(lambda y: (shared(y) * seed).sum())(x)
                np.testing.assert_allclose(
                    gradient, seed * (1 - np.tanh(np.arange(10.0)) ** 2), atol=1e-5
                )
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_same_bits_every_run():
    code = """
import numpy as np, tetrax, tetrax.numpy as jnp, hashlib
x = np.random.default_rng(0).standard_normal((200, 300)).astype(np.float32)
f = tetrax.jit(lambda x: jnp.exp(x @ x.T).sum(0) + jnp.sin(x).sum())
print(hashlib.sha256(np.asarray(f(x)).tobytes()).hexdigest())
"""
    assert len({run(code, TETRAX_NUM_THREADS=n) for n in ("1", "2", "7")}) == 1
