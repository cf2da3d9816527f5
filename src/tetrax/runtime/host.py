"""The processor that code is made for.

LLVM knows its name and features, but loading LLVM takes longer than running a small program whose
code is on disk. So its answer is kept there, under a description of the processor by the system.
"""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache

import llvmlite

from tetrax._lazy import lazy_module
from tetrax.runtime import disk_cache

llvm = lazy_module("llvmlite.binding")

VERSION = f"llvmlite-{llvmlite.__version__}"

_TELLING = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU ")


@cache
def host_cpu() -> tuple[str, str]:
    """(name, features) of the CPU that code is made for; TETRAX_CPU overrides, e.g. x86-64-v2."""
    override = os.environ.get("TETRAX_CPU")
    if override:
        return override, ""
    name, features, _ = _answers()
    return name, features


@cache
def host_architecture() -> str:
    """The first part of the target triple, such as x86_64."""
    return _answers()[2].split("-")[0]


@cache
def _answers() -> tuple[str, str, str]:
    """What LLVM says: the CPU's name, its features, and the target triple."""
    described = _description()
    key = None
    if described is not None:
        key = (
            "host-" + hashlib.sha256(f"{VERSION} {sys.platform}\n{described}".encode()).hexdigest()
        )
        found = disk_cache.library.read(key)
        if found is not None and found.count(b"\n") == 2:
            name, features, triple = found.decode().split("\n")
            return name, features, triple
    name, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    triple = llvm.get_default_triple()
    if key is not None:
        disk_cache.library.write(key, f"{name}\n{features}\n{triple}".encode())
    return name, features, triple


def _description() -> str | None:
    """What the system says of the first processor, or None where it does not say."""
    lines = []
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if not line.strip():
                    break
                if line.startswith(_TELLING):
                    lines.append(line)
    except OSError:
        return None
    return "".join(lines) or None
