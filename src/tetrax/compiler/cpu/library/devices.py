"""Several devices of one process, each on a thread of its own, and their meetings; as LLVM text.

    i32 tetrax_devices_launch(ptr args, ptr arena, i64 launch)

runs the program of one device once for each, and answers 0, or 1 where it failed. `args` holds the
addresses of all devices' operands, then of all their results, then of the constants, which are
shared; `launch` is the address of a record (`device_layout.py`). The caller is the first device.
One launch at a time has the threads.

    i32 tetrax_devices_arrive(ptr device, i64 partition, i64 site)

holds a device until all of its group, in one of the partitions of the devices into groups, have
come to the same site (a place in the program). It answers 1 where that will never be: a device has
failed, has come to another site, or has ended. So nobody waits for ever: who arrives or ends last,
when all others wait, sees it and says who waited where.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.device_layout import ACCESS, REASONS, REQUESTS, WORDS
from tetrax.compiler.cpu.library.device_meetings import MEETINGS
from tetrax.compiler.cpu.library.device_shadows import SHADOWS
from tetrax.compiler.cpu.library.waiting import System, threads_text
from tetrax.compiler.cpu.target import Target

DEVICE_SYMBOLS = (
    "tetrax_devices_launch",
    "tetrax_devices_arrive",
    "tetrax_devices_fail",
    "tetrax_devices_begin",
    "tetrax_devices_await",
    "tetrax_devices_setup",
    "tetrax_devices_stop",
    "tetrax_devices_forget",
)
"""What the module exports."""

MOST_DEVICES = 1024
"""Devices of one process."""


def devices_module(target: Target) -> str:
    """The LLVM module of the devices."""
    return devices_text(System.here(target.architecture))


def devices_text(system: System) -> str:
    """The LLVM module of the devices for a system."""
    sizes = {
        "MOST": MOST_DEVICES,
        "ASLEEP_BYTES": 4 * MOST_DEVICES,
        "RING_SIZE": REQUESTS,
        "REQUEST_MASK": REQUESTS - 1,
    }
    parts = [ACCESS, _STATE, _LAUNCH, MEETINGS, SHADOWS, _WORKER, _CONTROL]
    return threads_text(system, parts, {**WORDS, **REASONS, **sizes})


_STATE = """
@launching = internal global i32 0, align 64
@done = internal global i32 0, align 64        ; devices that have ended, and whether the caller
@waiting = internal global i32 0               ; sleeps for it: of the one launch that goes on
@started = internal global i64 0
@handles = internal global [$MOST$ x i64] zeroinitializer
; per worker: how often it was given a job, what it is, and whether the worker sleeps
@turns = internal global [$MOST$ x [16 x i32]] zeroinitializer, align 64
@jobs = internal global [$MOST$ x ptr] zeroinitializer
@asleep = internal global [$MOST$ x i32] zeroinitializer
@patience = internal global i64 0
declare i32 @sched_yield()

; one step of a wait: a pause, and after some of them a chance for whoever wants the core
define internal void @linger(i64 %turn) nounwind {
  $PAUSE$
  %long = icmp sgt i64 %turn, 400
  br i1 %long, label %yield, label %leave
yield:
  call i32 @sched_yield()
  br label %leave
leave:
  ret void
}
declare i32 @tetrax_pool_hold()
declare void @tetrax_pool_release()

; a lock that is held for some dozen instructions
define internal void @lock(ptr %place) nounwind {
entry:
  br label %try
try:
  %before = atomicrmw xchg ptr %place, i32 1 acquire
  %got = icmp eq i32 %before, 0
  br i1 %got, label %leave, label %later
later:
  call i32 @sched_yield()
  br label %try
leave:
  ret void
}

define internal void @unlock(ptr %place) nounwind {
  store atomic i32 0, ptr %place release, align 4
  ret void
}

; a lock that is held for a whole launch: 2 where somebody sleeps for it
define internal void @claim_launch() nounwind {
entry:
  %pair = cmpxchg ptr @launching, i32 0, i32 1 acquire monotonic
  %got = extractvalue { i32, i1 } %pair, 1
  br i1 %got, label %leave, label %sleep
sleep:
  %before = atomicrmw xchg ptr @launching, i32 2 acquire
  %free = icmp eq i32 %before, 0
  br i1 %free, label %leave, label %doze
doze:
  call void @wait(ptr @launching, i32 2)
  br label %sleep
leave:
  ret void
}

define internal void @free_launch() nounwind {
  %before = atomicrmw xchg ptr @launching, i32 0 release
  %sleepers = icmp eq i32 %before, 2
  br i1 %sleepers, label %rouse, label %leave
rouse:
  call void @wake(ptr @launching, i32 1)
  br label %leave
leave:
  ret void
}

"""

_LAUNCH = """
define i32 @tetrax_devices_launch(ptr %args, ptr %arena, i64 %record) nounwind {
entry:
  %launch = inttoptr i64 %record to ptr
  call void @claim_launch()
  call void @reset(ptr %launch)
  call void @fill(ptr %launch, ptr %args, ptr %arena)
  %count = call i64 @get(ptr %launch, i64 $PARTICIPANTS$)
  %patience = call i64 @get(ptr %launch, i64 $PATIENCE$)
  store atomic i64 %patience, ptr @patience monotonic, align 8
  %serial = call i64 @get(ptr %launch, i64 $SERIAL$)
  %one_by_one = icmp ne i64 %serial, 0
  br i1 %one_by_one, label %next_one, label %several
next_one:
  %at = phi i64 [ 0, %entry ], [ %following, %next_one ]
  %alone = call ptr @device(ptr %launch, i64 %at)
  call void @run(ptr %alone)
  %following = add i64 %at, 1
  %left = icmp slt i64 %following, %count
  br i1 %left, label %next_one, label %answer
several:
  %others = sub i64 %count, 1
  %enough = call i1 @start(i64 %others)
  br i1 %enough, label %ready, label %refuse
refuse:
  %failed_place = call ptr @word(ptr %launch, i64 $FAILED$)
  store atomic i32 $NO_THREADS$, ptr %failed_place seq_cst, align 4
  call void @free_launch()
  ret i32 1
ready:
  %hold = call i64 @get(ptr %launch, i64 $HOLD$)
  %wanted = icmp ne i64 %hold, 0
  br i1 %wanted, label %grab, label %give
grab:
  %held = call i32 @tetrax_pool_hold()
  br label %give
give:
  %has_pool = phi i32 [ 0, %ready ], [ %held, %grab ]
  br label %turn
turn:
  %index = phi i64 [ 1, %give ], [ %next, %job ]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %job, label %own
job:
  %device = call ptr @device(ptr %launch, i64 %index)
  %worker = sub i64 %index, 1
  call void @give(i64 %worker, ptr %device)
  %next = add i64 %index, 1
  br label %turn
own:
  %first = call ptr @device(ptr %launch, i64 0)
  call void @run(ptr %first)
  %all = trunc i64 %count to i32
  br label %spin
spin:
  %pauses = phi i64 [ 0, %own ], [ %pauses_next, %pause ]
  %now = load atomic i32, ptr @done acquire, align 4
  %over = icmp eq i32 %now, %all
  br i1 %over, label %leave, label %pause
pause:
  call void @linger(i64 %pauses)
  %pauses_next = add i64 %pauses, 1
  %patient = icmp slt i64 %pauses_next, %patience
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
  %held_pool = icmp ne i32 %has_pool, 0
  br i1 %held_pool, label %release, label %answer
release:
  call void @tetrax_pool_release()
  br label %answer
answer:
  %failed_word = call ptr @word(ptr %launch, i64 $FAILED$)
  %failed = load atomic i32, ptr %failed_word acquire, align 4
  %bad = icmp ne i32 %failed, 0
  %status = zext i1 %bad to i32
  call void @free_launch()
  ret i32 %status
}

define internal void @give(i64 %worker, ptr %job) nounwind {
entry:
  %place = getelementptr [$MOST$ x ptr], ptr @jobs, i64 0, i64 %worker
  store atomic ptr %job, ptr %place monotonic, align 8
  %turn = getelementptr [$MOST$ x [16 x i32]], ptr @turns, i64 0, i64 %worker
  atomicrmw add ptr %turn, i32 1 seq_cst
  %flag = getelementptr [$MOST$ x i32], ptr @asleep, i64 0, i64 %worker
  %asleep = load atomic i32, ptr %flag seq_cst, align 4
  %sleeps = icmp ne i32 %asleep, 0
  br i1 %sleeps, label %rouse, label %leave
rouse:
  call void @wake(ptr %turn, i32 1)
  br label %leave
leave:
  ret void
}
"""

_WORKER = """
define internal ptr @worker(ptr %argument) nounwind {
entry:
  %number = ptrtoint ptr %argument to i64
  %turn = getelementptr [$MOST$ x [16 x i32]], ptr @turns, i64 0, i64 %number
  %place = getelementptr [$MOST$ x ptr], ptr @jobs, i64 0, i64 %number
  %flag = getelementptr [$MOST$ x i32], ptr @asleep, i64 0, i64 %number
  br label %fresh
fresh:
  %last = phi i32 [ 0, %entry ], [ %now, %work ]
  br label %look
look:
  %pauses = phi i64 [ 0, %fresh ], [ %pauses_next, %pause ], [ 0, %awake ]
  %now = load atomic i32, ptr %turn seq_cst, align 4
  %same = icmp eq i32 %now, %last
  br i1 %same, label %pause, label %go
pause:
  call void @linger(i64 %pauses)
  %pauses_next = add i64 %pauses, 1
  %patience = load atomic i64, ptr @patience monotonic, align 8
  %patient = icmp slt i64 %pauses_next, %patience
  br i1 %patient, label %look, label %sleep
sleep:
  store atomic i32 1, ptr %flag seq_cst, align 4
  %again = load atomic i32, ptr %turn seq_cst, align 4
  %still = icmp eq i32 %again, %last
  br i1 %still, label %doze, label %awake
doze:
  call void @wait(ptr %turn, i32 %last)
  br label %awake
awake:
  store atomic i32 0, ptr %flag seq_cst, align 4
  br label %look
go:
  %job = load atomic ptr, ptr %place acquire, align 8
  %stop = icmp eq ptr %job, null
  br i1 %stop, label %leave, label %work
work:
  call void @run(ptr %job)
  br label %fresh
leave:
  ret ptr null
}

; bring the number of workers up to %wanted; false where the system gives no more threads
define internal i1 @start(i64 %wanted) nounwind {
entry:
  %count_before = load i64, ptr @started, align 8
  %needed = icmp slt i64 %count_before, %wanted
  br i1 %needed, label %prepare, label %enough
prepare:
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
  br i1 %more, label %make, label %end
make:
  %turn = getelementptr [$MOST$ x [16 x i32]], ptr @turns, i64 0, i64 %count
  store atomic i32 0, ptr %turn seq_cst, align 4
  %handle = getelementptr [$MOST$ x i64], ptr @handles, i64 0, i64 %count
  %argument = inttoptr i64 %count to ptr
  %failed = call i32 @pthread_create(ptr %handle, ptr null, ptr @worker, ptr %argument)
  %made = icmp eq i32 %failed, 0
  br i1 %made, label %counted, label %end
counted:
  %next = add i64 %count, 1
  store i64 %next, ptr @started, align 8
  br label %look
end:
  call i32 @pthread_sigmask(i32 $SETMASK$, ptr %saved, ptr null)
  %have = load i64, ptr @started, align 8
  %ok = icmp sge i64 %have, %wanted
  ret i1 %ok
enough:
  ret i1 true
}
"""

_CONTROL = """
define void @tetrax_devices_setup() nounwind {
  call void @setup_waiting()
  ret void
}

; end all threads
define void @tetrax_devices_stop() nounwind {
entry:
  call void @claim_launch()
  br label %look
look:
  %count = load i64, ptr @started, align 8
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %join, label %leave
join:
  %rest = sub i64 %count, 1
  call void @give(i64 %rest, ptr null)
  %place = getelementptr [$MOST$ x i64], ptr @handles, i64 0, i64 %rest
  %handle = load i64, ptr %place, align 8
  call i32 @pthread_join(i64 %handle, ptr null)
  store i64 %rest, ptr @started, align 8
  br label %look
leave:
  call void @free_launch()
  ret void
}

; in a forked child: there are no threads, and nobody launches
define void @tetrax_devices_forget() nounwind {
  call void @setup_waiting()
  store i64 0, ptr @started, align 8
  store i32 0, ptr @launching, align 4
  call void @llvm.memset.p0.i64(ptr @asleep, i8 0, i64 $ASLEEP_BYTES$, i1 false)
  ret void
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
