"""The worker pool, as LLVM text: loops of kind 'tasks' and the matrix product run on it.

    void tetrax_parallel(ptr function, ptr context, i64 tasks, i64 work)

calls `function(context, task)` once for every task below `tasks`, on several threads, and returns
when all are done. `work` estimates what all tasks take on one thread, in nanoseconds (count an
eighth of it where memory is the limit): it decides whether sleeping workers are worth waking.

- Work is claimed by compare-and-swap on one 64-bit word, (epoch, tasks left). The caller works too
  and waits for tasks, not for workers, so the pool never depends on a worker being there.
- Workers spin for some time after the last task, then sleep. A caller who finds them asleep and has
  little to do runs its tasks itself; only when such calls follow each other closely, and together
  would have paid for it, are the workers woken.
- One call at a time has the workers. Calls from inside a task, or from another thread meanwhile,
  run their tasks themselves.
- Workers start at the first call that wants them. A forked child has none: `tetrax_pool_forget`
  makes it start its own. `tetrax_pool_resize` stops them all and sets how many threads the next
  calls may use; that is also how the pool ends before the process does.

    ptr tetrax_local_memory(i64 bytes)

gives the calling thread memory of at least so many bytes, 64-byte aligned. It is the thread's own,
kept for next time, and its contents hold until the thread asks again.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.pool_memory import local_memory_text
from tetrax.compiler.cpu.library.waiting import System, threads_text
from tetrax.compiler.cpu.target import Target

SPINS = 3000
"""Pauses before a worker, or a caller with nothing left to do, sleeps: some 100 microseconds."""
WAKE_WORK = 60_000
"""Nanoseconds of work that pay for waking sleeping workers."""
CLOSE_CALLS = 1_000_000
"""Nanoseconds between calls that count as following each other."""
MOST_THREADS = 256

POOL_SYMBOLS = (
    "tetrax_parallel",
    "tetrax_pool_threads",
    "tetrax_pool_setup",
    "tetrax_pool_resize",
    "tetrax_pool_forget",
    "tetrax_pool_workers",
    "tetrax_pool_hold",
    "tetrax_pool_release",
    "tetrax_local_memory",
)
"""What the module exports."""


def pool_module(target: Target) -> str:
    """The LLVM module of the pool."""
    return pool_text(System.here(target.architecture))


def pool_text(system: System) -> str:
    """The LLVM module of the pool for a system."""
    parts = [_STATE, _PARALLEL, _RUN, _WORKER, _START, _CONTROL, local_memory_text(system.linux)]
    values = {
        "SPINS": SPINS,
        "WAKE_WORK": WAKE_WORK,
        "CLOSE_CALLS": CLOSE_CALLS,
        "MOST": MOST_THREADS - 1,
    }
    return threads_text(system, parts, values)


_STATE = """
@word = internal global i64 0, align 64        ; epoch << 32 | tasks left
@function = internal global ptr null, align 64
@context = internal global ptr null
@done = internal global i32 0, align 64
@waiting = internal global i32 0               ; the caller sleeps, or is about to
@sleepers = internal global i32 0, align 64
@busy = internal global i32 0, align 64
@stopping = internal global i32 0
@limit = internal global i64 1                 ; threads, the caller counted
@started = internal global i64 0               ; workers
@missed = internal global i64 0                ; work not shared because workers slept
@before = internal global i64 0                ; when that was
@handles = internal global [256 x i64] zeroinitializer
declare i32 @clock_gettime(i32, ptr)
declare i32 @usleep(i32)
"""

_PARALLEL = """
define void @tetrax_parallel(ptr %function, ptr %context, i64 %tasks, i64 %work) nounwind {
entry:
  %limit = load atomic i64, ptr @limit monotonic, align 8
  %one_thread = icmp sle i64 %limit, 1
  %one_task = icmp sle i64 %tasks, 1
  %alone = or i1 %one_thread, %one_task
  br i1 %alone, label %inline, label %look
look:
  %taken = load atomic i32, ptr @busy monotonic, align 4
  %free = icmp eq i32 %taken, 0
  br i1 %free, label %grab, label %inline
grab:
  %pair = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %got = extractvalue { i32, i1 } %pair, 1
  br i1 %got, label %rest, label %inline
rest:
  %sleepers = load atomic i32, ptr @sleepers seq_cst, align 4
  %started = load i64, ptr @started, align 8
  %wanted = sub i64 %limit, 1
  %awake = sub i64 %started, 1
  %wide = sext i32 %sleepers to i64
  %all_asleep = icmp sgt i64 %wide, %awake
  br i1 %all_asleep, label %consider, label %go
consider:
  %pays = call i1 @pays(i64 %work)
  br i1 %pays, label %go, label %release
release:
  store atomic i32 0, ptr @busy release, align 4
  br label %inline
go:
  %few = icmp slt i64 %started, %wanted
  br i1 %few, label %start, label %publish
start:
  call void @start(i64 %wanted)
  br label %publish
publish:
  call void @share(ptr %function, ptr %context, i64 %tasks)
  store atomic i32 0, ptr @busy release, align 4
  ret void
inline:
  %some = icmp sgt i64 %tasks, 0
  br i1 %some, label %turn, label %leave
turn:
  %task = phi i64 [ 0, %inline ], [ %next, %turn ]
  call void %function(ptr %context, i64 %task)
  %next = add i64 %task, 1
  %more = icmp slt i64 %next, %tasks
  br i1 %more, label %turn, label %leave
leave:
  ret void
}

; whether work is worth waking the workers for, by itself or with what was missed just before
define internal i1 @pays(i64 %work) nounwind {
entry:
  %big = icmp sge i64 %work, $WAKE_WORK$
  br i1 %big, label %yes, label %count
count:
  %time = alloca [2 x i64], align 8
  call i32 @clock_gettime(i32 $MONOTONIC$, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %place = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %place, align 8
  %billions = mul i64 %seconds, 1000000000
  %now = add i64 %billions, %rest
  %before = load i64, ptr @before, align 8
  store i64 %now, ptr @before, align 8
  %gap = sub i64 %now, %before
  %close = icmp slt i64 %gap, $CLOSE_CALLS$
  %old = load i64, ptr @missed, align 8
  %kept = select i1 %close, i64 %old, i64 0
  %missed = add i64 %kept, %work
  %enough = icmp sge i64 %missed, $WAKE_WORK$
  br i1 %enough, label %yes, label %no
yes:
  store i64 0, ptr @missed, align 8
  ret i1 true
no:
  store i64 %missed, ptr @missed, align 8
  ret i1 false
}
"""

_RUN = """
; hand out the tasks and wait for the last one; the caller has the pool
define internal void @share(ptr %function, ptr %context, i64 %tasks) nounwind {
entry:
  store atomic ptr %function, ptr @function monotonic, align 8
  store atomic ptr %context, ptr @context monotonic, align 8
  store atomic i32 0, ptr @waiting monotonic, align 4
  store atomic i32 0, ptr @done monotonic, align 4
  %word = load atomic i64, ptr @word monotonic, align 8
  %epoch = lshr i64 %word, 32
  %following = add i64 %epoch, 1
  %upper = shl i64 %following, 32
  %new = or i64 %upper, %tasks
  store atomic i64 %new, ptr @word seq_cst, align 8
  %sleepers = load atomic i32, ptr @sleepers seq_cst, align 4
  %some = icmp ne i32 %sleepers, 0
  br i1 %some, label %rouse, label %work
rouse:
  %count = trunc i64 %tasks to i32
  %others = sub i32 %count, 1
  call void @wake(ptr getelementptr (i8, ptr @word, i64 4), i32 %others)
  br label %work
work:
  %claimed = call i1 @claim()
  br i1 %claimed, label %work, label %wait
wait:
  %all = trunc i64 %tasks to i32
  br label %spin
spin:
  %turn = phi i32 [ 0, %wait ], [ %next, %pause ]
  %done = load atomic i32, ptr @done acquire, align 4
  %over = icmp eq i32 %done, %all
  br i1 %over, label %leave, label %pause
pause:
  $PAUSE$
  %next = add i32 %turn, 1
  %patient = icmp slt i32 %next, $SPINS$
  br i1 %patient, label %spin, label %sleep
sleep:
  store atomic i32 1, ptr @waiting seq_cst, align 4
  %before = load atomic i32, ptr @done seq_cst, align 4
  %finished = icmp eq i32 %before, %all
  br i1 %finished, label %leave, label %doze
doze:
  call void @wait(ptr @done, i32 %before)
  br label %sleep
leave:
  ret void
}

; take one task and run it; false if there is none
define internal i1 @claim() nounwind {
entry:
  br label %look
look:
  %word = load atomic i64, ptr @word acquire, align 8
  %left = and i64 %word, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %empty, label %try
try:
  %function = load atomic ptr, ptr @function monotonic, align 8
  %context = load atomic ptr, ptr @context monotonic, align 8
  %task = sub i64 %left, 1
  %rest = sub i64 %word, 1
  %pair = cmpxchg ptr @word, i64 %word, i64 %rest acq_rel monotonic
  %got = extractvalue { i64, i1 } %pair, 1
  br i1 %got, label %run, label %look
run:
  call void %function(ptr %context, i64 %task)
  %before = atomicrmw add ptr @done, i32 1 seq_cst
  %waiting = load atomic i32, ptr @waiting seq_cst, align 4
  %asleep = icmp ne i32 %waiting, 0
  br i1 %asleep, label %rouse, label %leave
rouse:
  call void @wake(ptr @done, i32 1)
  br label %leave
leave:
  ret i1 true
empty:
  ret i1 false
}
"""

_WORKER = """
define internal ptr @worker(ptr %argument) nounwind {
entry:
  br label %fresh
fresh:
  br label %look
look:
  %turn = phi i32 [ 0, %fresh ], [ %next, %pause ]
  %claimed = call i1 @claim()
  br i1 %claimed, label %fresh, label %idle
idle:
  %stop = load atomic i32, ptr @stopping acquire, align 4
  %end = icmp ne i32 %stop, 0
  br i1 %end, label %leave, label %pause
pause:
  $PAUSE$
  %next = add i32 %turn, 1
  %patient = icmp slt i32 %next, $SPINS$
  br i1 %patient, label %look, label %sleep
sleep:
  atomicrmw add ptr @sleepers, i32 1 seq_cst
  %word = load atomic i64, ptr @word seq_cst, align 8
  %left = and i64 %word, 4294967295
  %none = icmp eq i64 %left, 0
  %last = load atomic i32, ptr @stopping seq_cst, align 4
  %running = icmp eq i32 %last, 0
  %quiet = and i1 %none, %running
  br i1 %quiet, label %doze, label %awake
doze:
  %upper = lshr i64 %word, 32
  %epoch = trunc i64 %upper to i32
  call void @wait(ptr getelementptr (i8, ptr @word, i64 4), i32 %epoch)
  br label %awake
awake:
  atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %fresh
leave:
  ret ptr null
}
"""

_START = """
; bring the number of workers up to %wanted; they leave signals to the threads that were there
define internal void @start(i64 %wanted) nounwind {
entry:
  %blocked = alloca [128 x i8], align 16
  %saved = alloca [128 x i8], align 16
  call i32 @sigfillset(ptr %blocked)
$KEEP_FAULTS$
  call i32 @pthread_sigmask(i32 $SETMASK$, ptr %blocked, ptr %saved)
  br label %look
look:
  %count = load i64, ptr @started, align 8
  %few = icmp slt i64 %count, %wanted
  %fits = icmp slt i64 %count, $MOST$
  %more = and i1 %few, %fits
  br i1 %more, label %make, label %leave
make:
  %place = getelementptr i64, ptr @handles, i64 %count
  %failed = call i32 @pthread_create(ptr %place, ptr null, ptr @worker, ptr null)
  %made = icmp eq i32 %failed, 0
  br i1 %made, label %counted, label %enough
counted:
  %next = add i64 %count, 1
  store i64 %next, ptr @started, align 8
  br label %look
enough:
  %threads = add i64 %count, 1
  store atomic i64 %threads, ptr @limit monotonic, align 8
  br label %leave
leave:
  call i32 @pthread_sigmask(i32 $SETMASK$, ptr %saved, ptr null)
  ret void
}
"""

_CONTROL = """
; how many threads a call made now would get
define i64 @tetrax_pool_threads() nounwind {
  %limit = load atomic i64, ptr @limit monotonic, align 8
  %taken = load atomic i32, ptr @busy monotonic, align 4
  %free = icmp eq i32 %taken, 0
  %threads = select i1 %free, i64 %limit, i64 1
  ret i64 %threads
}

define i64 @tetrax_pool_workers() nounwind {
  %count = load atomic i64, ptr @started monotonic, align 8
  ret i64 %count
}

; keep the pool from working, if it is idle: until it is released, calls run their tasks themselves
define i32 @tetrax_pool_hold() nounwind {
  %pair = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %got = extractvalue { i32, i1 } %pair, 1
  %answer = zext i1 %got to i32
  ret i32 %answer
}

define void @tetrax_pool_release() nounwind {
  store atomic i32 0, ptr @busy release, align 4
  ret void
}

define void @tetrax_pool_setup() nounwind {
  call void @setup_waiting()
  call void @setup_memory()
  ret void
}

; stop all workers and let the next calls use up to %limit threads
define void @tetrax_pool_resize(i64 %limit) nounwind {
entry:
  br label %grab
grab:
  %pair = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %got = extractvalue { i32, i1 } %pair, 1
  br i1 %got, label %stop, label %later
later:
  call i32 @usleep(i32 50)
  br label %grab
stop:
  store atomic i32 1, ptr @stopping seq_cst, align 4
  %word = load atomic i64, ptr @word monotonic, align 8
  %new = add i64 %word, 4294967296
  store atomic i64 %new, ptr @word seq_cst, align 8
  call void @wake(ptr getelementptr (i8, ptr @word, i64 4), i32 2147483647)
  br label %look
look:
  %count = load i64, ptr @started, align 8
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %join, label %leave
join:
  %rest = sub i64 %count, 1
  %place = getelementptr i64, ptr @handles, i64 %rest
  %handle = load i64, ptr %place, align 8
  call i32 @pthread_join(i64 %handle, ptr null)
  store i64 %rest, ptr @started, align 8
  br label %look
leave:
  store atomic i64 %limit, ptr @limit monotonic, align 8
  store atomic i32 0, ptr @stopping seq_cst, align 4
  store atomic i32 0, ptr @busy release, align 4
  ret void
}

; in a forked child: there are no workers, and nobody has the pool
define void @tetrax_pool_forget() nounwind {
  call void @setup_waiting()
  store i64 0, ptr @started, align 8
  store i64 0, ptr @word, align 8
  store i32 0, ptr @sleepers, align 4
  store i32 0, ptr @stopping, align 4
  store i32 0, ptr @busy, align 4
  ret void
}
"""
