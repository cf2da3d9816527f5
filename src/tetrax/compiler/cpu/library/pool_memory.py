"""Memory that each thread keeps for library routines (packed operands and the like), as LLVM
text.

It comes in multiples of a huge page, which are asked for on Linux: fresh small pages would cost
more than the copy that fills them. The C library frees it when the thread ends.
"""

from __future__ import annotations


def local_memory_text(linux: bool) -> str:
    """The functions `tetrax_local_memory` and `setup_memory`, and what they need."""
    text = _TEXT.replace("$KEY$", "i32" if linux else "i64")
    return text.replace("$HUGE_PAGES$", _HUGE_PAGES if linux else "")


_HUGE_PAGES = "call i32 @madvise(ptr %made, i64 %size, i32 14)"

# The first 64 bytes of a block hold its size.
_TEXT = """
@memory_key = internal global i64 0
declare i32 @pthread_key_create(ptr, ptr)
declare i32 @pthread_setspecific($KEY$, ptr)
declare ptr @pthread_getspecific($KEY$)
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare i32 @madvise(ptr, i64, i32)
declare void @abort() noreturn

define internal void @setup_memory() nounwind {
  call i32 @pthread_key_create(ptr @memory_key, ptr @free)
  ret void
}

define ptr @tetrax_local_memory(i64 %bytes) nounwind {
entry:
  %place = alloca ptr, align 8
  %key = load $KEY$, ptr @memory_key, align 8
  %block = call ptr @pthread_getspecific($KEY$ %key)
  %needed = add i64 %bytes, 64
  %none = icmp eq ptr %block, null
  br i1 %none, label %fresh, label %measure
measure:
  %held = load i64, ptr %block, align 8
  %fits = icmp sge i64 %held, %needed
  br i1 %fits, label %give, label %grow
grow:
  call void @free(ptr %block)
  br label %fresh
fresh:
  %more = add i64 %needed, 2097151
  %size = and i64 %more, -2097152
  %failed = call i32 @posix_memalign(ptr %place, i64 2097152, i64 %size)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %fail, label %keep
keep:
  %made = load ptr, ptr %place, align 8
  $HUGE_PAGES$
  store i64 %size, ptr %made, align 8
  call i32 @pthread_setspecific($KEY$ %key, ptr %made)
  br label %give
give:
  %found = phi ptr [ %block, %measure ], [ %made, %keep ]
  %start = getelementptr i8, ptr %found, i64 64
  ret ptr %start
fail:
  call void @abort()
  unreachable
}
"""
