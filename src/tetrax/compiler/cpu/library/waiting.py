"""How native threads wait for each other and are started, as LLVM text that modules share.

    void wait(ptr place, i32 expected)    sleep while *place is expected, unless woken
    void wake(ptr place, i32 count)       wake up to `count` threads that sleep there
    void setup_waiting()                  to be called once, and in a forked child

Waiting is a futex on Linux, and one mutex with a condition variable elsewhere.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# What a pause is called per architecture (the first part of the target triple).
_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
    "arm64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
_FUTEX_CALL = {"x86_64": 202, "aarch64": 98, "arm64": 98}


@dataclass(frozen=True)
class System:
    """What the pool's text depends on of the operating system and the processor."""

    architecture: str
    linux: bool
    futex: int | None
    """The number of the system call, or None where a condition variable is used."""

    @classmethod
    def here(cls, architecture: str) -> System:
        linux = sys.platform == "linux"
        return cls(architecture, linux, _FUTEX_CALL.get(architecture) if linux else None)


def threads_text(system: System, parts: Sequence[str], values: Mapping[str, object]) -> str:
    """A module of the given parts and of what they use; `$NAME$` stands for a value."""
    declaration, pause = _PAUSES.get(system.architecture, ("", ""))
    known = {
        "PAUSE": pause,
        "FUTEX": system.futex,
        "MONOTONIC": 1 if system.linux else 6,
        "SETMASK": 2 if system.linux else 3,
        "KEEP_FAULTS": "\n".join(
            f"  call i32 @sigdelset(ptr %blocked, i32 {int(number)})"
            for number in (signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)
        ),
    }
    waiting = _FUTEX if system.futex is not None else _CONDITION
    text = "\n".join([declaration, _THREADS, waiting, *parts])
    for name, value in {**known, **values}.items():
        text = text.replace(f"${name}$", str(value))
    return text


_THREADS = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)
"""

_FUTEX = """
declare i64 @syscall(i64, ...)
define internal void @wait(ptr %place, i32 %expected) nounwind {
  call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr %place, i64 128, i32 %expected, ptr null)
  ret void
}
define internal void @wake(ptr %place, i32 %count) nounwind {
  call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr %place, i64 129, i32 %count)
  ret void
}
define internal void @setup_waiting() nounwind {
  ret void
}
"""

_CONDITION = """
@mutex = internal global [128 x i8] zeroinitializer, align 64
@signal = internal global [128 x i8] zeroinitializer, align 64
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
define internal void @wait(ptr %place, i32 %expected) nounwind {
entry:
  call i32 @pthread_mutex_lock(ptr @mutex)
  br label %test
test:
  %now = load atomic i32, ptr %place seq_cst, align 4
  %same = icmp eq i32 %now, %expected
  br i1 %same, label %sleep, label %leave
sleep:
  call i32 @pthread_cond_wait(ptr @signal, ptr @mutex)
  br label %test
leave:
  call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}
define internal void @wake(ptr %place, i32 %count) nounwind {
  call i32 @pthread_mutex_lock(ptr @mutex)
  call i32 @pthread_cond_broadcast(ptr @signal)
  call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}
define internal void @setup_waiting() nounwind {
  call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  call i32 @pthread_cond_init(ptr @signal, ptr null)
  ret void
}
"""
