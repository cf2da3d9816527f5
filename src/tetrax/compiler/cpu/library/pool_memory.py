"""Memory that each thread keeps for library routines (packed operands and the like), as LLVM
text.

On Linux it is mapped in multiples of a huge page, which are asked for: fresh small pages would cost
more than the copy that fills them.
"""

from __future__ import annotations

HEADER = 64
"""Bytes in front of the memory: its size, and the alignment that is promised."""


def local_memory_text(linux: bool) -> str:
    """The functions `tetrax_local_memory`, `setup_memory` and what they need."""
    return (_COMMON + (_MAPPED if linux else _ALLOCATED)).replace(
        "$KEY$", "i32" if linux else "i64"
    )


_COMMON = """
@memory_key = internal global i64 0
declare i32 @pthread_key_create(ptr, ptr)
declare i32 @pthread_setspecific($KEY$, ptr)
declare ptr @pthread_getspecific($KEY$)

define internal void @setup_memory() nounwind {
  call i32 @pthread_key_create(ptr @memory_key, ptr @release)
  ret void
}

define ptr @tetrax_local_memory(i64 %bytes) nounwind {
entry:
  %key = load $KEY$, ptr @memory_key, align 8
  %block = call ptr @pthread_getspecific($KEY$ %key)
  %none = icmp eq ptr %block, null
  br i1 %none, label %fresh, label %measure
measure:
  %size = load i64, ptr %block, align 8
  %needed = add i64 %bytes, 64
  %fits = icmp sge i64 %size, %needed
  br i1 %fits, label %give, label %grow
grow:
  call void @release(ptr %block)
  br label %fresh
fresh:
  %wanted = add i64 %bytes, 64
  %made = call ptr @reserve(i64 %wanted)
  call i32 @pthread_setspecific($KEY$ %key, ptr %made)
  br label %give
give:
  %found = phi ptr [ %block, %measure ], [ %made, %fresh ]
  %start = getelementptr i8, ptr %found, i64 64
  ret ptr %start
}
"""

# A mapping larger by a huge page holds an aligned part of the size; the rest is given back.
_MAPPED = """
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare void @abort() noreturn

define internal ptr @reserve(i64 %bytes) nounwind {
entry:
  %more = add i64 %bytes, 2097151
  %size = and i64 %more, -2097152
  %whole = add i64 %size, 2097152
  %area = call ptr @mmap(ptr null, i64 %whole, i32 3, i32 34, i32 -1, i64 0)
  %at = ptrtoint ptr %area to i64
  %failed = icmp eq i64 %at, -1
  br i1 %failed, label %fail, label %trim
trim:
  %negated = sub i64 0, %at
  %before = and i64 %negated, 2097151
  %start = getelementptr i8, ptr %area, i64 %before
  %some = icmp ne i64 %before, 0
  br i1 %some, label %front, label %back
front:
  call i32 @munmap(ptr %area, i64 %before)
  br label %back
back:
  %end = getelementptr i8, ptr %start, i64 %size
  %after = sub i64 2097152, %before
  call i32 @munmap(ptr %end, i64 %after)
  call i32 @madvise(ptr %start, i64 %size, i32 14)
  store i64 %size, ptr %start, align 8
  ret ptr %start
fail:
  call void @abort()
  unreachable
}

define internal void @release(ptr %block) nounwind {
  %size = load i64, ptr %block, align 8
  call i32 @munmap(ptr %block, i64 %size)
  ret void
}
"""

_ALLOCATED = """
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare void @abort() noreturn

define internal ptr @reserve(i64 %bytes) nounwind {
entry:
  %place = alloca ptr, align 8
  %failed = call i32 @posix_memalign(ptr %place, i64 64, i64 %bytes)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %fail, label %give
give:
  %block = load ptr, ptr %place, align 8
  store i64 %bytes, ptr %block, align 8
  ret ptr %block
fail:
  call void @abort()
  unreachable
}

define internal void @release(ptr %block) nounwind {
  call void @free(ptr %block)
  ret void
}
"""
