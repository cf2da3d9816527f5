"""What this machine can do, measured in the run itself: multiply-adds and copied bytes per second.

Two small loops are compiled by Tetrax's own engine and run on as many threads as the libraries use.
"""

from __future__ import annotations

import ctypes
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.row import Case
from tetrax.compiler.cpu.target import Target, host_target
from tetrax.runtime.llvm import compile_object, engine
from tetrax.runtime.threads import worker_count

_CHAINS = 12
_COPY_BYTES = 128 << 20
_Loop = Callable[..., None]


@dataclass(frozen=True)
class Machine:
    """The machine of a run; speeds are of all threads together, per second."""

    cpu: str
    cores: int
    threads: int
    vector_bits: int
    memory_gib: float
    system: str
    python: str
    fma_f32: float
    fma_f64: float
    copy_bytes: float

    def limit(self, case: Case) -> tuple[float | None, str | None]:
        """The least time a case can take here, and what limits it."""
        peak = self.fma_f64 if case.x64 else self.fma_f32
        limits = {"flops": case.flops / peak, "bytes": case.bytes / self.copy_bytes}
        kind = max(limits, key=lambda name: limits[name])
        return (limits[kind], kind) if limits[kind] else (None, None)

    def record(self) -> dict[str, Any]:
        """The machine as it stands in the JSON file."""
        return asdict(self)


def measure_machine() -> Machine:
    """Measure this machine (about a second)."""
    target, threads = host_target(), worker_count()
    with ThreadPoolExecutor(threads) as pool:
        fma = {name: _fma_peak(pool, target, threads, name) for name in ("float", "double")}
        copied = max(_copy_speed(pool, target, threads, streaming) for streaming in (False, True))
    return Machine(
        cpu=cpu_name(),
        cores=os.cpu_count() or 1,
        threads=threads,
        vector_bits=target.vector_bits,
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        fma_f32=fma["float"],
        fma_f64=fma["double"],
        copy_bytes=copied,
    )


def cpu_name() -> str:
    """The processor's name and LLVM's name for its kind."""
    named = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        named = lines[0].split(":", 1)[1].strip() if lines else named
    return f"{named} ({host_target().cpu})"


def _together(pool: ThreadPoolExecutor, threads: int, job: Callable[[int], None]) -> float:
    """Least seconds of a job per thread, all threads at once: a limit is what could be reached."""
    times = []
    for _ in range(12):
        start = time.perf_counter()
        list(pool.map(job, range(threads)))
        times.append(time.perf_counter() - start)
    return min(times)


def _compiled(symbol: str, text: str, arguments: list[Any]) -> _Loop:
    address = engine.link(compile_object(text), [symbol], text)[symbol]
    return ctypes.CFUNCTYPE(None, *arguments)(address)


# --------------------------------------------------------------------------- multiply-adds


def _fma_peak(pool: ThreadPoolExecutor, target: Target, threads: int, element: str) -> float:
    lanes = target.natural_lanes(32 if element == "float" else 64)
    loop = _compiled(
        f"bench_fma_{element}",
        _fma_text(element, lanes, target.has_fma),
        [ctypes.c_void_p, ctypes.c_int64],
    )
    turns = 4_000_000
    out = np.zeros((threads, 64), np.float64)
    seconds = _together(pool, threads, lambda i: loop(out[i].ctypes.data, turns))
    return 2.0 * _CHAINS * lanes * turns * threads / seconds


def _fma_text(element: str, lanes: int, has_fma: bool) -> str:
    """Independent chains of multiply-adds in registers, as many as hide their latency."""
    vector = f"<{lanes} x {element}>"
    half, one = (f"{vector} splat ({element} {value})" for value in ("0.5", "1.0"))
    suffix = f"v{lanes}f{32 if element == 'float' else 64}"
    phis, steps, names = [], [], []
    for i in range(_CHAINS):
        phis.append(
            f"  %a{i} = phi {vector} [ {one[len(vector) + 1 :]}, %entry ], [ %b{i}, %loop ]"
        )
        if has_fma:
            steps.append(
                f"  %b{i} = call {vector} @llvm.fma.{suffix}({vector} %a{i}, {half}, {one})"
            )
        else:
            steps.append(f"  %m{i} = fmul {vector} %a{i}, {half[len(vector) + 1 :]}")
            steps.append(f"  %b{i} = fadd {vector} %m{i}, {one[len(vector) + 1 :]}")
        names.append(f"%b{i}")
    sums = [f"  %s{i} = fadd {vector} {names[i]}, %s{i - 1}" for i in range(1, _CHAINS)]
    first = f"  %s0 = fadd {vector} {names[0]}, zeroinitializer"
    lines = [
        f"declare {vector} @llvm.fma.{suffix}({vector}, {vector}, {vector})",
        f"define void @bench_fma_{element}(ptr %out, i64 %turns) {{",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *phis,
        *steps,
        "  %next = add i64 %i, 1",
        "  %more = icmp ult i64 %next, %turns",
        "  br i1 %more, label %loop, label %done",
        "done:",
        first,
        *sums,
        f"  store {vector} %s{_CHAINS - 1}, ptr %out, align 4",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


# --------------------------------------------------------------------------- copied bytes


def _copy_speed(pool: ThreadPoolExecutor, target: Target, threads: int, streaming: bool) -> float:
    """Bytes read plus bytes written per second, with plain or with streaming stores."""
    width = target.vector_bits // 8
    symbol = f"bench_copy_{'streaming' if streaming else 'plain'}"
    loop = _compiled(
        symbol,
        _copy_text(symbol, width, streaming),
        [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64],
    )
    source, destination = (_aligned(_COPY_BYTES) for _ in range(2))
    source[:], destination[:] = 1, 2
    part = _COPY_BYTES // threads // 4096 * 4096

    def job(i: int) -> None:
        offset = i * part
        loop(destination.ctypes.data + offset, source.ctypes.data + offset, part)

    return 2.0 * part * threads / _together(pool, threads, job)


def _aligned(size: int) -> np.ndarray:
    raw = np.empty(size + 4096, np.uint8)
    start = -raw.ctypes.data % 4096
    return raw[start : start + size]


def _copy_text(symbol: str, width: int, streaming: bool) -> str:
    vector = f"<{width // 4} x i32>"
    hint = ", !nontemporal !0" if streaming else ""
    body = []
    for i in range(4):
        body += [
            f"  %f{i} = getelementptr i8, ptr %from, i64 {i * width}",
            f"  %t{i} = getelementptr i8, ptr %to, i64 {i * width}",
            f"  %v{i} = load {vector}, ptr %f{i}, align {width}",
            f"  store {vector} %v{i}, ptr %t{i}, align {width}{hint}",
        ]
    lines = [
        f"define void @{symbol}(ptr noalias %target, ptr noalias %source, i64 %bytes) {{",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        "  %from = getelementptr i8, ptr %source, i64 %i",
        "  %to = getelementptr i8, ptr %target, i64 %i",
        *body,
        f"  %next = add i64 %i, {4 * width}",
        "  %more = icmp ult i64 %next, %bytes",
        "  br i1 %more, label %loop, label %done",
        "done:",
        "  ret void",
        "}",
        "!0 = !{i32 1}",
    ]
    return "\n".join(lines) + "\n"
