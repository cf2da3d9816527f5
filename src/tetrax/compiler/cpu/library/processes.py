"""Exchanges between processes, as LLVM text: what a program calls where its devices are in several.

    i32 tetrax_process_all_gather(ptr group, ptr send, ptr recv, i64 bytes)
        recv[r] = what member r sent; blocks of `bytes`; `send` may be the own block of `recv`
    i32 tetrax_process_all_to_all(ptr group, ptr send, ptr recv, i64 bytes)
        recv[r] = block of this member in what member r sent; the two must not overlap
    i32 tetrax_process_permute(ptr group, ptr send, i64 to, ptr recv, i64 from, i64 bytes)
        sends to member `to` and receives from member `from`; -1: does not
    i32 tetrax_process_broadcast(ptr group, ptr buffer, i64 root, i64 bytes)
    i32 tetrax_process_barrier(ptr group)

All return 0, or why they failed: 1 + the rank of a process that is gone, or one of the negative
numbers of `process_records`, which also says what a group's record holds. The members of a group
make its exchanges in the same order; each group has a communicator of its own, so exchanges of
different groups may be under way at the same time in different threads.

- Nothing is added up here: whoever reduces does so in an order of its own, from all the parts.
- Messages go straight from and into the given memory, from member to member; only MPI_Isend,
  MPI_Irecv and MPI_Test are called, so it is known for whom an exchange waits. What an exchange is
  (`kind`) is the tag: different ones never meet.
- Nothing blocks: a wait polls for a while, then sleeps in steps that grow to half a millisecond,
  and looks in between whether a process has ended, or has left without making this exchange.
- Arguments and handles are passed as 64 bits each. Where MPI has `int` it reads the lower half,
  which the calling conventions of x86-64 and AArch64 put in the same place.
"""

from __future__ import annotations

import errno
import sys

from tetrax.compiler.cpu.library.processes_exchanges import BLOCKS, MESSAGES, ROUNDS
from tetrax.compiler.cpu.target import Target
from tetrax.runtime import process_records as records

PROCESS_SYMBOLS = (
    "tetrax_process_all_gather",
    "tetrax_process_all_to_all",
    "tetrax_process_permute",
    "tetrax_process_broadcast",
    "tetrax_process_barrier",
)
"""What the module exports."""

FIRST_SLEEP = 10_000
LONGEST_SLEEP = 500_000
"""Nanoseconds of the first and of the longest sleep of a wait."""
FAILURE_PAUSE = 2_000_000
"""Nanoseconds before a failed exchange returns: by then no thread of this process is in MPI, which
could write into memory that the caller gives back."""


def processes_module(target: Target) -> str:
    """The LLVM module of the exchanges."""
    linux = sys.platform == "linux"
    ended = _ENDED if linux else _ENDED_NEVER
    text = "\n".join((_DECLARATIONS, _STATE, ended, _LOOK, _WAIT, MESSAGES, BLOCKS, ROUNDS))
    values = {
        **{name: getattr(records, name) for name in records.__all__ if name.isupper()},
        "FIRST_SLEEP": FIRST_SLEEP,
        "LONGEST_SLEEP": LONGEST_SLEEP,
        "FAILURE_PAUSE": FAILURE_PAUSE,
        "MONOTONIC": 1 if linux else 6,
        "EOWNERDEAD": errno.EOWNERDEAD,
        "ENOTRECOVERABLE": errno.ENOTRECOVERABLE,
    }
    for name, value in values.items():
        text = text.replace(f"${name}$", str(value))
    return text


_DECLARATIONS = """
declare i32 @nanosleep(ptr, ptr)
declare i64 @pthread_self()
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal i64 @field(ptr %record, i64 %offset) nounwind {
  %place = getelementptr i8, ptr %record, i64 %offset
  %value = load i64, ptr %place, align 8
  ret i64 %value
}
define internal ptr @pointer(ptr %record, i64 %offset) nounwind {
  %place = getelementptr i8, ptr %record, i64 %offset
  %value = load ptr, ptr %place, align 8
  ret ptr %value
}
define internal i64 @now() nounwind {
  %time = alloca [2 x i64], align 8
  call i32 @clock_gettime(i32 $MONOTONIC$, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %place = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %place, align 8
  %billions = mul i64 %seconds, 1000000000
  %now = add i64 %billions, %rest
  ret i64 %now
}
; 0, or -1 if a signal has ended it
define internal i32 @sleep(i64 %nanoseconds) nounwind {
  %time = alloca [2 x i64], align 8
  store i64 0, ptr %time, align 8
  %place = getelementptr i64, ptr %time, i64 1
  store i64 %nanoseconds, ptr %place, align 8
  %code = call i32 @nanosleep(ptr %time, ptr null)
  ret i32 %code
}
"""

_STATE = """
; the failure that this process knows of, or 0
define internal i32 @failure(ptr %process) nounwind {
entry:
  %own = load atomic i32, ptr %process acquire, align 4
  %failed = icmp ne i32 %own, 0
  br i1 %failed, label %leave, label %others
others:
  %board = call ptr @pointer(ptr %process, i64 $BOARD$)
  %gone = load atomic i32, ptr %board acquire, align 4
  br label %leave
leave:
  %code = phi i32 [ %own, %entry ], [ %gone, %others ]
  ret i32 %code
}

; note a failure: the first one stays
define internal i32 @fail(ptr %group, i32 %kind, i32 %code, i32 %error) nounwind {
entry:
  %process = call ptr @pointer(ptr %group, i64 $PROCESS$)
  %pair = cmpxchg ptr %process, i32 0, i32 %code acq_rel acquire
  %first = extractvalue { i32, i1 } %pair, 1
  br i1 %first, label %write, label %leave
write:
  %kind_place = getelementptr i8, ptr %process, i64 $FAILED_KIND$
  store i32 %kind, ptr %kind_place, align 4
  %error_place = getelementptr i8, ptr %process, i64 $MPI_ERROR$
  store i32 %error, ptr %error_place, align 4
  %group_place = getelementptr i8, ptr %process, i64 $FAILED_GROUP$
  store ptr %group, ptr %group_place, align 8
  br label %leave
leave:
  call i32 @sleep(i64 $FAILURE_PAUSE$)
  %now = load atomic i32, ptr %process acquire, align 4
  ret i32 %now
}

; begin an exchange: its number, unless something has failed
define internal i32 @enter(ptr %group, i32 %kind) nounwind {
entry:
  %process = call ptr @pointer(ptr %group, i64 $PROCESS$)
  %code = call i32 @failure(ptr %process)
  %failed = icmp ne i32 %code, 0
  br i1 %failed, label %refuse, label %count
refuse:
  %noted = call i32 @fail(ptr %group, i32 %kind, i32 %code, i32 0)
  ret i32 %noted
count:
  %place = getelementptr i8, ptr %group, i64 $STARTED$
  %before = load i64, ptr %place, align 8
  %number = add i64 %before, 1
  store i64 %number, ptr %place, align 8
  ret i32 0
}

; end an exchange: the others may see that it has been made
define internal i32 @finish(ptr %group, i32 %code) nounwind {
entry:
  %failed = icmp ne i32 %code, 0
  br i1 %failed, label %leave, label %publish
publish:
  %number = call i64 @field(ptr %group, i64 $STARTED$)
  %small = trunc i64 %number to i32
  %entry_place = call ptr @pointer(ptr %group, i64 $ENTRY$)
  %count = getelementptr i8, ptr %entry_place, i64 4
  store atomic i32 %small, ptr %count release, align 4
  br label %leave
leave:
  ret i32 %code
}
"""

# Elsewhere than on Linux a thread of Python watches the other processes.
_ENDED_NEVER = """
define internal i1 @ended(ptr %slot) nounwind {
  ret i1 false
}
"""

_ENDED = """
declare i32 @pthread_mutex_trylock(ptr)
declare i32 @pthread_mutex_unlock(ptr)

; whether the process with a slot, which runs for all one knows, has ended
define internal i1 @ended(ptr %slot) nounwind {
entry:
  %held_place = getelementptr i8, ptr %slot, i64 $HELD$
  %held = load atomic i32, ptr %held_place acquire, align 4
  %holds = icmp ne i32 %held, 0
  br i1 %holds, label %try, label %no
try:
  %mutex = getelementptr i8, ptr %slot, i64 $MUTEX$
  %code = call i32 @pthread_mutex_trylock(ptr %mutex)
  switch i32 %code, label %no [ i32 $EOWNERDEAD$, label %first
                                i32 $ENOTRECOVERABLE$, label %yes ]
first:
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}
"""

_LOOK = """
; whether the process with a slot has finished an exchange
define internal i1 @has_finished(ptr %slot, i32 %key, i32 %number) nounwind {
entry:
  %spill_place = getelementptr i8, ptr %slot, i64 $OVERFLOW$
  %spill = load atomic i32, ptr %spill_place acquire, align 4
  %spilt = icmp ne i32 %spill, 0
  br label %test
test:
  %at = phi i64 [ 0, %entry ], [ %next, %other ]
  %inside = icmp slt i64 %at, $ENTRIES$
  br i1 %inside, label %compare, label %unknown
compare:
  %scaled = mul i64 %at, 8
  %offset = add i64 %scaled, $ENTRIES_AT$
  %place = getelementptr i8, ptr %slot, i64 %offset
  %found = load atomic i32, ptr %place acquire, align 4
  %same = icmp eq i32 %found, %key
  br i1 %same, label %read, label %other
other:
  %next = add i64 %at, 1
  %end = icmp eq i32 %found, 0
  br i1 %end, label %unknown, label %test
read:
  %count_place = getelementptr i8, ptr %place, i64 4
  %count = load atomic i32, ptr %count_place acquire, align 4
  %ahead = sub i32 %count, %number
  %made = icmp sge i32 %ahead, 0
  ret i1 %made
unknown:
  ret i1 %spilt
}

; why an exchange cannot come to its end, or 0
define internal i32 @look(ptr %group) nounwind {
entry:
  %process = call ptr @pointer(ptr %group, i64 $PROCESS$)
  %board = call ptr @pointer(ptr %process, i64 $BOARD$)
  %rank = call i64 @field(ptr %group, i64 $RANK$)
  %code = call i32 @failure(ptr %process)
  %failed = icmp ne i32 %code, 0
  br i1 %failed, label %leave, label %members
members:
  %size = call i64 @field(ptr %group, i64 $SIZE$)
  %key_place = getelementptr i8, ptr %group, i64 $KEY$
  %key = load i32, ptr %key_place, align 4
  %started = call i64 @field(ptr %group, i64 $STARTED$)
  %number = trunc i64 %started to i32
  %slots = call ptr @pointer(ptr %group, i64 $SLOTS$)
  br label %test
test:
  %at = phi i64 [ 0, %members ], [ %next, %following ]
  %more = icmp slt i64 %at, %size
  br i1 %more, label %member, label %fine
member:
  %slot_place = getelementptr ptr, ptr %slots, i64 %at
  %slot = load ptr, ptr %slot_place, align 8
  %unseen = icmp eq ptr %slot, null
  %self = icmp eq i64 %at, %rank
  %skipped = or i1 %unseen, %self
  br i1 %skipped, label %following, label %seen
seen:
  %ranks = call ptr @pointer(ptr %group, i64 $RANKS$)
  %number_place = getelementptr i32, ptr %ranks, i64 %at
  %world_rank = load i32, ptr %number_place, align 4
  %missed = add i32 %world_rank, 1
  %state = load atomic i32, ptr %slot acquire, align 4
  switch i32 %state, label %following [ i32 $RUNNING$, label %running
                                        i32 $LEFT$, label %compare ]
running:
  %over = call i1 @ended(ptr %slot)
  br i1 %over, label %gone, label %following
gone:
  cmpxchg ptr %slot, i32 $RUNNING$, i32 $GONE$ acq_rel acquire
  cmpxchg ptr %board, i32 0, i32 %missed acq_rel acquire
  %first = load atomic i32, ptr %board acquire, align 4
  br label %leave
compare:
  %made = call i1 @has_finished(ptr %slot, i32 %key, i32 %number)
  br i1 %made, label %following, label %missing
missing:
  br label %leave
following:
  %next = add i64 %at, 1
  br label %test
fine:
  br label %leave
leave:
  %result = phi i32 [ %code, %entry ], [ %first, %gone ], [ %missed, %missing ], [ 0, %fine ]
  ret i32 %result
}
"""

_WAIT = """
define internal void @show(ptr %process, i32 %kind) nounwind {
  %slot = call ptr @pointer(ptr %process, i64 $OWN_SLOT$)
  %place = getelementptr i8, ptr %slot, i64 $WAITING$
  store atomic i32 %kind, ptr %place release, align 4
  ret void
}

; whether the program's handler of a signal raises, in the thread that handles them
define internal i1 @interrupted(ptr %process) nounwind {
entry:
  %ensure = call ptr @pointer(ptr %process, i64 $ENSURE$)
  %none = icmp eq ptr %ensure, null
  %main = call i64 @field(ptr %process, i64 $MAIN$)
  %self = call i64 @pthread_self()
  %another = icmp ne i64 %main, %self
  %cannot = or i1 %none, %another
  br i1 %cannot, label %no, label %ask
ask:
  %state = call i32 %ensure()
  %check = call ptr @pointer(ptr %process, i64 $CHECK_SIGNALS$)
  %code = call i32 %check()
  %raises = icmp ne i32 %code, 0
  br i1 %raises, label %keep, label %give_back
keep:
  %fetch = call ptr @pointer(ptr %process, i64 $FETCH$)
  %type = getelementptr i8, ptr %process, i64 $RAISED$
  %value = getelementptr ptr, ptr %type, i64 1
  %trace = getelementptr ptr, ptr %type, i64 2
  call void %fetch(ptr %type, ptr %value, ptr %trace)
  br label %give_back
give_back:
  %release = call ptr @pointer(ptr %process, i64 $RELEASE$)
  call void %release(i32 %state)
  ret i1 %raises
no:
  ret i1 false
}

; why MPI has failed: with a process that has ended, if one has
define internal i32 @broken(ptr %group) nounwind {
  call i32 @sleep(i64 1000000)
  %found = call i32 @look(ptr %group)
  %known = icmp ne i32 %found, 0
  %code = select i1 %known, i32 %found, i32 $BROKEN$
  ret i32 %code
}

; wait until all of %count messages have gone or come
define internal i32 @wait(ptr %group, ptr %requests, i64 %count, i32 %kind) nounwind {
entry:
  %done_place = alloca i32, align 4
  %status = alloca [16 x i64], align 16
  %process = call ptr @pointer(ptr %group, i64 $PROCESS$)
  %test_function = call ptr @pointer(ptr %process, i64 $TEST$)
  %spins_place = getelementptr i8, ptr %process, i64 $SPINS$
  %spins = load i32, ptr %spins_place, align 4
  br label %next
next:
  %at = phi i64 [ 0, %entry ], [ %following, %done ]
  %turn = phi i32 [ 0, %entry ], [ %now_turn, %done ]
  %pause = phi i64 [ $FIRST_SLEEP$, %entry ], [ %now_pause, %done ]
  %since = phi i64 [ 0, %entry ], [ %now_since, %done ]
  %more = icmp slt i64 %at, %count
  br i1 %more, label %look, label %finished
look:
  %now_turn = phi i32 [ %turn, %next ], [ %one_more, %yield ], [ %one_more, %slept ]
  %now_pause = phi i64 [ %pause, %next ], [ %now_pause, %yield ], [ %longer, %slept ]
  %now_since = phi i64 [ %since, %next ], [ %now_since, %yield ], [ %begun, %slept ]
  %failure = call i32 @failure(ptr %process)
  %failed = icmp ne i32 %failure, 0
  br i1 %failed, label %give_up, label %test
test:
  %request = getelementptr i64, ptr %requests, i64 %at
  %error = call i32 %test_function(ptr %request, ptr %done_place, ptr %status)
  %wrong = icmp ne i32 %error, 0
  br i1 %wrong, label %broken, label %answer
answer:
  %answered = load i32, ptr %done_place, align 4
  %is_done = icmp ne i32 %answered, 0
  br i1 %is_done, label %done, label %idle
done:
  %following = add i64 %at, 1
  br label %next
idle:
  %one_more = add i32 %now_turn, 1
  %patient = icmp slt i32 %one_more, %spins
  br i1 %patient, label %yield, label %slow
yield:
  call i32 @sched_yield()
  br label %look
slow:
  %new = icmp eq i64 %now_since, 0
  br i1 %new, label %begin, label %examine
begin:
  call void @show(ptr %process, i32 %kind)
  %start = call i64 @now()
  br label %examine
examine:
  %begun = phi i64 [ %start, %begin ], [ %now_since, %slow ]
  %found = call i32 @look(ptr %group)
  %bad = icmp ne i32 %found, 0
  br i1 %bad, label %give_up, label %limit
limit:
  %patience = call i64 @field(ptr %process, i64 $PATIENCE$)
  %endless = icmp eq i64 %patience, 0
  br i1 %endless, label %doze, label %measure
measure:
  %time = call i64 @now()
  %waited = sub i64 %time, %begun
  %late = icmp sgt i64 %waited, %patience
  br i1 %late, label %give_up, label %doze
doze:
  %signal = call i32 @sleep(i64 %now_pause)
  %disturbed = icmp ne i32 %signal, 0
  ; one that came between two sleeps is seen after a while
  %low = and i32 %one_more, 255
  %now_and_then = icmp eq i32 %low, 0
  %curious = or i1 %disturbed, %now_and_then
  br i1 %curious, label %ask, label %slept
ask:
  %stop = call i1 @interrupted(ptr %process)
  br i1 %stop, label %give_up, label %slept
slept:
  %twice = mul i64 %now_pause, 2
  %short = icmp slt i64 %twice, $LONGEST_SLEEP$
  %longer = select i1 %short, i64 %twice, i64 $LONGEST_SLEEP$
  br label %look
broken:
  %reason = call i32 @broken(ptr %group)
  br label %give_up
give_up:
  %code = phi i32 [ %failure, %look ], [ %found, %examine ], [ $TIMED_OUT$, %measure ],
    [ %reason, %broken ], [ $INTERRUPTED$, %ask ]
  %number = phi i32 [ 0, %look ], [ 0, %examine ], [ 0, %measure ], [ %error, %broken ], [ 0, %ask ]
  %noted = call i32 @fail(ptr %group, i32 %kind, i32 %code, i32 %number)
  ret i32 %noted
finished:
  %waited_long = icmp ne i64 %since, 0
  br i1 %waited_long, label %hide, label %leave
hide:
  call void @show(ptr %process, i32 0)
  br label %leave
leave:
  ret i32 0
}
"""
