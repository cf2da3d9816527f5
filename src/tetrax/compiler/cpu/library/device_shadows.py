"""Collectives beside the work of a device: its shadow does them, on a thread of its own; as LLVM
text.

    i64 tetrax_devices_begin(ptr device, ptr routine, i64 partition, i64 site, ptr table,
                             i64 entries)

asks the shadow to run a routine of `collectives.py` on a table, and gives a number by which

    i32 tetrax_devices_await(ptr device, i64 number)

waits until that is done, and answers 0, or 1 where it failed. Shadows do what they are asked in
order. A shadow takes part in meetings as a device does, of groups of shadows; it ends when its
device has ended and nothing is left to do. A device that waits for its shadow counts as waiting,
and so does a shadow that has nothing to do, so that nobody waits for ever here either.
"""

from __future__ import annotations

SHADOWS = """
define internal void @reset_shadows(ptr %launch) nounwind {
entry:
  %count = call i64 @get(ptr %launch, i64 $PARTICIPANTS$)
  br label %turn
turn:
  %index = phi i64 [ 0, %entry ], [ %next, %following ]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %one, label %leave
one:
  %device = call ptr @device(ptr %launch, i64 %index)
  %state = call ptr @word(ptr %device, i64 $STATE$)
  store i32 0, ptr %state, align 4
  call void @set(ptr %device, i64 $AWAITED$, i64 0)
  %ring = call ptr @get_ptr(ptr %device, i64 $RING$)
  %none = icmp eq ptr %ring, null
  br i1 %none, label %following, label %clear
clear:
  call void @set(ptr %ring, i64 $HEAD$, i64 0)
  call void @set(ptr %ring, i64 $COMPLETED$, i64 0)
  call void @set(ptr %ring, i64 $CLOSED$, i64 0)
  call void @set(ptr %ring, i64 $DOZING$, i64 0)
  br label %following
following:
  %next = add i64 %index, 1
  br label %turn
leave:
  ret void
}

define internal ptr @ring_of_shadow(ptr %device) nounwind {
  %shadow = call ptr @get_ptr(ptr %device, i64 $SHADOW$)
  %ring = call ptr @get_ptr(ptr %shadow, i64 $RING$)
  ret ptr %ring
}

define internal ptr @request(ptr %ring, i64 %number) nounwind {
  %slot = and i64 %number, $REQUEST_MASK$
  %words = mul i64 %slot, 8
  %at = add i64 %words, $REQUESTS$
  %place = call ptr @word(ptr %ring, i64 %at)
  ret ptr %place
}

define i64 @tetrax_devices_begin(ptr %device, ptr %routine, i64 %partition, i64 %site, ptr %table,
    i64 %entries) nounwind {
entry:
  %ring = call ptr @ring_of_shadow(ptr %device)
  %head_place = call ptr @word(ptr %ring, i64 $HEAD$)
  %done_place = call ptr @word(ptr %ring, i64 $COMPLETED$)
  %head = load i64, ptr %head_place, align 8
  %launch = call ptr @get_ptr(ptr %device, i64 $LAUNCH$)
  %failed_place = call ptr @word(ptr %launch, i64 $FAILED$)
  br label %look
look:
  %done = load atomic i64, ptr %done_place acquire, align 8
  %pending = sub i64 %head, %done
  %room = icmp slt i64 %pending, $RING_SIZE$
  %failed = load atomic i32, ptr %failed_place monotonic, align 4
  %over = icmp ne i32 %failed, 0
  %go_on = or i1 %room, %over
  br i1 %go_on, label %write, label %full
full:
  ; counts as waiting; where that fails, so has the launch
  %oldest = sub i64 %head, $REQUEST_MASK$
  call i32 @tetrax_devices_await(ptr %device, i64 %oldest)
  br label %look
write:
  %place = call ptr @request(ptr %ring, i64 %head)
  %routine_bits = ptrtoint ptr %routine to i64
  %table_bits = ptrtoint ptr %table to i64
  call void @set(ptr %place, i64 0, i64 %routine_bits)
  call void @set(ptr %place, i64 1, i64 %partition)
  call void @set(ptr %place, i64 2, i64 %site)
  call void @set(ptr %place, i64 3, i64 %table_bits)
  call void @set(ptr %place, i64 4, i64 %entries)
  %number = add i64 %head, 1
  store atomic i64 %number, ptr %head_place seq_cst, align 8
  %shadow = call ptr @get_ptr(ptr %device, i64 $SHADOW$)
  call void @rouse_shadow(ptr %shadow)
  ret i64 %number
}

; wake a shadow that has nothing to do; other participants are left alone
define internal void @rouse_shadow(ptr %shadow) nounwind {
entry:
  %ring = call ptr @get_ptr(ptr %shadow, i64 $RING$)
  %none = icmp eq ptr %ring, null
  br i1 %none, label %leave, label %look
look:
  %flag = call ptr @word(ptr %ring, i64 $DOZING$)
  %before = atomicrmw xchg ptr %flag, i32 0 seq_cst
  %dozes = icmp ne i32 %before, 0
  br i1 %dozes, label %rouse, label %leave
rouse:
  call void @wake(ptr %flag, i32 1)
  br label %leave
leave:
  ret void
}

define internal void @close_shadow(ptr %device) nounwind {
entry:
  %shadow = call ptr @get_ptr(ptr %device, i64 $SHADOW$)
  %none = icmp eq ptr %shadow, null
  br i1 %none, label %leave, label %close
close:
  %ring = call ptr @get_ptr(ptr %shadow, i64 $RING$)
  %place = call ptr @word(ptr %ring, i64 $CLOSED$)
  store atomic i32 1, ptr %place seq_cst, align 4
  call void @rouse_shadow(ptr %shadow)
  br label %leave
leave:
  ret void
}

; do what is asked until the device has ended
define internal i32 @serve(ptr %shadow) nounwind {
entry:
  %launch = call ptr @get_ptr(ptr %shadow, i64 $LAUNCH$)
  %failed_place = call ptr @word(ptr %launch, i64 $FAILED$)
  %ring = call ptr @get_ptr(ptr %shadow, i64 $RING$)
  %head_place = call ptr @word(ptr %ring, i64 $HEAD$)
  %done_place = call ptr @word(ptr %ring, i64 $COMPLETED$)
  %closed_place = call ptr @word(ptr %ring, i64 $CLOSED$)
  %flag = call ptr @word(ptr %ring, i64 $DOZING$)
  %patience = call i64 @get(ptr %launch, i64 $PATIENCE$)
  br label %look
look:
  %done = phi i64 [ 0, %entry ], [ %completed, %work_done ], [ %done, %pause ], [ %done, %awake ]
  %pauses = phi i64 [ 0, %entry ], [ 0, %work_done ], [ %pauses_next, %pause ], [ 0, %awake ]
  %head = load atomic i64, ptr %head_place seq_cst, align 8
  %some = icmp slt i64 %done, %head
  br i1 %some, label %work, label %idle
work:
  %place = call ptr @request(ptr %ring, i64 %done)
  %routine = call ptr @get_ptr(ptr %place, i64 0)
  %partition = call i64 @get(ptr %place, i64 1)
  %site = call i64 @get(ptr %place, i64 2)
  %table = call ptr @get_ptr(ptr %place, i64 3)
  %entries = call i64 @get(ptr %place, i64 4)
  %status = call i32 %routine(ptr %shadow, i64 %partition, i64 %site, ptr %table, ptr null,
      i64 %entries)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %lost, label %work_done
lost:
  ret i32 1
work_done:
  %completed = add i64 %done, 1
  call void @complete(ptr %launch, ptr %shadow, i64 %completed)
  br label %look
idle:
  %closed = load atomic i32, ptr %closed_place seq_cst, align 4
  %failed = load atomic i32, ptr %failed_place seq_cst, align 4
  %either = or i32 %closed, %failed
  %end = icmp ne i32 %either, 0
  br i1 %end, label %leave, label %pause_or_sleep
pause_or_sleep:
  %patient = icmp slt i64 %pauses, %patience
  br i1 %patient, label %pause, label %sleep
pause:
  call void @linger(i64 %pauses)
  %pauses_next = add i64 %pauses, 1
  br label %look
sleep:
  store atomic i32 1, ptr %flag seq_cst, align 4
  ; whoever asks, closes or fails does so before it looks at the flag
  %head_again = load atomic i64, ptr %head_place seq_cst, align 8
  %closed_again = load atomic i32, ptr %closed_place seq_cst, align 4
  %failed_again = load atomic i32, ptr %failed_place seq_cst, align 4
  %same = icmp eq i64 %head_again, %done
  %either_again = or i32 %closed_again, %failed_again
  %quiet = icmp eq i32 %either_again, 0
  %still = and i1 %same, %quiet
  br i1 %still, label %doze, label %awake
doze:
  call void @wait(ptr %flag, i32 1)
  br label %awake
awake:
  store atomic i32 0, ptr %flag seq_cst, align 4
  br label %look
leave:
  ret i32 0
}

; a request is done: let the device go if it waits for it
define internal void @complete(ptr %launch, ptr %shadow, i64 %completed) nounwind {
entry:
  %ring = call ptr @get_ptr(ptr %shadow, i64 $RING$)
  %device = call ptr @get_ptr(ptr %shadow, i64 $SHADOW$)
  %lock = call ptr @word(ptr %launch, i64 $LOCK$)
  call void @lock(ptr %lock)
  %done_place = call ptr @word(ptr %ring, i64 $COMPLETED$)
  store atomic i64 %completed, ptr %done_place release, align 8
  %awaited = call i64 @get(ptr %device, i64 $AWAITED$)
  %waits = icmp ne i64 %awaited, 0
  %reached = icmp sge i64 %completed, %awaited
  %free = and i1 %waits, %reached
  br i1 %free, label %let_go, label %leave
let_go:
  call void @set(ptr %device, i64 $AWAITED$, i64 0)
  %blocked = call i64 @get(ptr %launch, i64 $BLOCKED$)
  %fewer = sub i64 %blocked, 1
  call void @set(ptr %launch, i64 $BLOCKED$, i64 %fewer)
  call void @release(ptr %device)
  br label %leave
leave:
  call void @check_missing(ptr %launch, ptr %shadow)
  call void @unlock(ptr %lock)
  ret void
}

; the lock is held: does a shadow that has not ended wait for something to do?
define internal i1 @is_idle(ptr %shadow) nounwind {
  %ring = call ptr @get_ptr(ptr %shadow, i64 $RING$)
  %head_place = call ptr @word(ptr %ring, i64 $HEAD$)
  %head = load atomic i64, ptr %head_place seq_cst, align 8
  %done = call i64 @get(ptr %ring, i64 $COMPLETED$)
  %closed_place = call ptr @word(ptr %ring, i64 $CLOSED$)
  %closed = load atomic i32, ptr %closed_place seq_cst, align 4
  %there = icmp ne i32 %closed, 2
  %nothing = icmp eq i64 %head, %done
  %idle = and i1 %there, %nothing
  ret i1 %idle
}

; the lock is held: this shadow has ended
define internal void @mark_ended(ptr %ring) nounwind {
  %place = call ptr @word(ptr %ring, i64 $CLOSED$)
  store atomic i32 2, ptr %place seq_cst, align 4
  ret void
}

define i32 @tetrax_devices_await(ptr %device, i64 %number) nounwind {
entry:
  %launch = call ptr @get_ptr(ptr %device, i64 $LAUNCH$)
  %ring = call ptr @ring_of_shadow(ptr %device)
  %done_place = call ptr @word(ptr %ring, i64 $COMPLETED$)
  %failed_place = call ptr @word(ptr %launch, i64 $FAILED$)
  %lock = call ptr @word(ptr %launch, i64 $LOCK$)
  call void @lock(ptr %lock)
  %failed = load atomic i32, ptr %failed_place monotonic, align 4
  %over = icmp ne i32 %failed, 0
  br i1 %over, label %refuse, label %look
refuse:
  call void @unlock(ptr %lock)
  ret i32 1
look:
  %done = load atomic i64, ptr %done_place acquire, align 8
  %reached = icmp sge i64 %done, %number
  br i1 %reached, label %go, label %stay
go:
  call void @unlock(ptr %lock)
  ret i32 0
stay:
  call void @set(ptr %device, i64 $AWAITED$, i64 %number)
  call void @set(ptr %device, i64 $SITE$, i64 -1)
  %blocked = call i64 @get(ptr %launch, i64 $BLOCKED$)
  %more = add i64 %blocked, 1
  call void @set(ptr %launch, i64 $BLOCKED$, i64 %more)
  %state = call ptr @word(ptr %device, i64 $STATE$)
  store atomic i32 1, ptr %state monotonic, align 4
  call void @check_missing(ptr %launch, ptr %device)
  call void @unlock(ptr %lock)
  %patience = call i64 @get(ptr %launch, i64 $PATIENCE$)
  call void @stay(ptr %state, i64 %patience)
  %after = load atomic i32, ptr %failed_place acquire, align 4
  %bad = icmp ne i32 %after, 0
  %answer = zext i1 %bad to i32
  ret i32 %answer
}
"""
