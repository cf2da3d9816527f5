"""The processor: LLVM's answer, and the same from disk without loading LLVM."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import tetrax
from tetrax.runtime import disk_cache, host

FOLDER = os.path.dirname(os.path.dirname(tetrax.__file__))


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": FOLDER, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_answer_is_llvms():
    assert host._answers() == (
        host.llvm.get_host_cpu_name(),
        host.llvm.get_host_cpu_features().flatten(),
        host.llvm.get_default_triple(),
    )


@pytest.mark.skipif(host._description() is None, reason="this system does not describe itself")
def test_the_second_process_loads_no_llvm(tmp_path):
    code = "import sys; from tetrax.runtime import host; print(*host._answers(), sep='|');"
    code += "print('llvmlite.binding' in sys.modules)"
    folder = {"TETRAX_CACHE_DIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    first, second = run(code, **folder), run(code, **folder)
    assert first.splitlines()[0] == second.splitlines()[0]
    assert second.splitlines()[1] == "False"


def test_a_program_on_disk_needs_no_llvm(tmp_path):
    code = "import sys, tetrax, numpy; print(tetrax.jit(lambda x: x * 2 + 1)(numpy.ones(3)));"
    code += "print('llvmlite.binding' in sys.modules)"
    folder = {"TETRAX_CACHE_DIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    first, second = run(code, **folder).splitlines(), run(code, **folder).splitlines()
    assert first[0] == second[0] == "[3. 3. 3.]"
    if host.host_architecture() == "x86_64" and sys.platform == "linux":
        assert second[1] == "False"


def test_without_a_description(monkeypatch):
    monkeypatch.setattr(host, "_description", lambda: None)
    assert host._answers.__wrapped__() == host._answers()


def test_a_spoilt_answer_is_asked_for_again(monkeypatch):
    monkeypatch.setattr(disk_cache.library, "read", lambda key: b"rubbish")
    monkeypatch.setattr(disk_cache.library, "write", lambda key, contents: None)
    assert host._answers.__wrapped__() == host._answers()


def test_override():
    code = "from tetrax.runtime import host; print(host.host_cpu())"
    assert run(code, TETRAX_CPU="x86-64-v2") == "('x86-64-v2', '')"
