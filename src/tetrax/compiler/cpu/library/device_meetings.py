"""How devices wait for each other, and what happens when one never comes; as LLVM text.

The lock of a launch is held for some dozen instructions at a time. A device's state is 0 while it
runs, 1 while it waits, 2 while it sleeps.
"""

from __future__ import annotations

MEETINGS = """

define internal void @reset(ptr %launch) nounwind {
entry:
  call void @reset_shadows(ptr %launch)
  call void @set(ptr %launch, i64 $LOCK$, i64 0)
  call void @set(ptr %launch, i64 $FAILED$, i64 0)
  store atomic i32 0, ptr @done monotonic, align 4
  store atomic i32 0, ptr @waiting monotonic, align 4
  call void @set(ptr %launch, i64 $BLOCKED$, i64 0)
  call void @set(ptr %launch, i64 $FINISHED$, i64 0)
  %groups = call i64 @get(ptr %launch, i64 $GROUPS$)
  %list = call ptr @get_ptr(ptr %launch, i64 $GROUP_LIST$)
  br label %turn
turn:
  %index = phi i64 [ 0, %entry ], [ %next, %one ]
  %more = icmp slt i64 %index, %groups
  br i1 %more, label %one, label %leave
one:
  %group = call ptr @get_ptr(ptr %list, i64 %index)
  call void @set(ptr %group, i64 $ARRIVED$, i64 0)
  %next = add i64 %index, 1
  br label %turn
leave:
  ret void
}

; the argument table of each device: its operands, its results, the constants, its record
define internal void @fill(ptr %launch, ptr %args, ptr %arena) nounwind {
entry:
  %count = call i64 @get(ptr %launch, i64 $DEVICES$)
  %inputs = call i64 @get(ptr %launch, i64 $INPUTS$)
  %outputs = call i64 @get(ptr %launch, i64 $OUTPUTS$)
  %constants = call i64 @get(ptr %launch, i64 $CONSTANTS$)
  %stride = call i64 @get(ptr %launch, i64 $STRIDE$)
  %all_inputs = mul i64 %count, %inputs
  %values = add i64 %inputs, %outputs
  %all_values = mul i64 %count, %values
  %hidden = getelementptr ptr, ptr %args, i64 %all_values
  %input_bytes = mul i64 %inputs, 8
  %output_bytes = mul i64 %outputs, 8
  %constant_bytes = mul i64 %constants, 8
  br label %turn
turn:
  %index = phi i64 [ 0, %entry ], [ %next, %one ]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %one, label %leave
one:
  %device = call ptr @device(ptr %launch, i64 %index)
  %state = call ptr @word(ptr %device, i64 $STATE$)
  store i32 0, ptr %state, align 4
  %table = call ptr @get_ptr(ptr %device, i64 $TABLE$)
  %input_at = mul i64 %index, %inputs
  %source_in = getelementptr ptr, ptr %args, i64 %input_at
  call void @llvm.memcpy.p0.p0.i64(ptr %table, ptr %source_in, i64 %input_bytes, i1 false)
  %output_part = mul i64 %index, %outputs
  %output_at = add i64 %all_inputs, %output_part
  %source_out = getelementptr ptr, ptr %args, i64 %output_at
  %place_out = getelementptr ptr, ptr %table, i64 %inputs
  call void @llvm.memcpy.p0.p0.i64(ptr %place_out, ptr %source_out, i64 %output_bytes, i1 false)
  %place_hidden = getelementptr ptr, ptr %table, i64 %values
  call void @llvm.memcpy.p0.p0.i64(ptr %place_hidden, ptr %hidden, i64 %constant_bytes, i1 false)
  %place_record = getelementptr ptr, ptr %place_hidden, i64 %constants
  store ptr %device, ptr %place_record, align 8
  %offset = mul i64 %index, %stride
  %own_arena = getelementptr i8, ptr %arena, i64 %offset
  %arena_place = call ptr @word(ptr %device, i64 $ARENA$)
  store ptr %own_arena, ptr %arena_place, align 8
  %next = add i64 %index, 1
  br label %turn
leave:
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)


; the program of one device, and what its end means for those who wait
define internal void @run(ptr %device) nounwind {
entry:
  %launch = call ptr @get_ptr(ptr %device, i64 $LAUNCH$)
  %ring = call ptr @get_ptr(ptr %device, i64 $RING$)
  %is_shadow = icmp ne ptr %ring, null
  br i1 %is_shadow, label %serve, label %compute
serve:
  %served = call i32 @serve(ptr %device)
  br label %settle
compute:
  %program = call ptr @get_ptr(ptr %launch, i64 $ENTRY$)
  %table = call ptr @get_ptr(ptr %device, i64 $TABLE$)
  %arena = call ptr @get_ptr(ptr %device, i64 $ARENA$)
  %context = call i64 @get(ptr %launch, i64 $CONTEXT$)
  %computed = call i32 %program(ptr %table, ptr %arena, i64 %context)
  call void @close_shadow(ptr %device)
  br label %settle
settle:
  %status = phi i32 [ %served, %serve ], [ %computed, %compute ]
  %lock = call ptr @word(ptr %launch, i64 $LOCK$)
  call void @lock(ptr %lock)
  br i1 %is_shadow, label %mark, label %count
mark:
  call void @mark_ended(ptr %ring)
  br label %count
count:
  %finished = call i64 @get(ptr %launch, i64 $FINISHED$)
  %more = add i64 %finished, 1
  call void @set(ptr %launch, i64 $FINISHED$, i64 %more)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %failed, label %check
failed:
  call void @fail(ptr %launch, i32 $FAILED_DEVICE$, ptr %device, i64 -1)
  br label %end
check:
  call void @check_missing(ptr %launch, ptr %device)
  br label %end
end:
  call void @unlock(ptr %lock)
  ; from here on the record may be gone
  atomicrmw add ptr @done, i32 1 seq_cst
  %waits = load atomic i32, ptr @waiting seq_cst, align 4
  %asleep = icmp ne i32 %waits, 0
  br i1 %asleep, label %rouse, label %leave
rouse:
  call void @wake(ptr @done, i32 1)
  br label %leave
leave:
  ret void
}

; the lock is held: note the first failure, and let everybody go who waits
define internal void @fail(ptr %launch, i32 %reason, ptr %device, i64 %site) nounwind {
entry:
  %place = call ptr @word(ptr %launch, i64 $FAILED$)
  %before = load atomic i32, ptr %place monotonic, align 4
  %first = icmp eq i32 %before, 0
  br i1 %first, label %note, label %leave
note:
  %index = call i64 @get(ptr %device, i64 $INDEX$)
  call void @set(ptr %launch, i64 $DEVICE_A$, i64 %index)
  call void @set(ptr %launch, i64 $SITE_A$, i64 %site)
  call void @first_blocked(ptr %launch)
  store atomic i32 %reason, ptr %place seq_cst, align 4
  %count = call i64 @get(ptr %launch, i64 $PARTICIPANTS$)
  br label %turn
turn:
  %at = phi i64 [ 0, %note ], [ %next, %one ]
  %more = icmp slt i64 %at, %count
  br i1 %more, label %one, label %leave
one:
  %other = call ptr @device(ptr %launch, i64 %at)
  call void @release(ptr %other)
  call void @rouse_shadow(ptr %other)
  %next = add i64 %at, 1
  br label %turn
leave:
  ret void
}

; say who waits, and where: the first of them
define internal void @first_blocked(ptr %launch) nounwind {
entry:
  call void @set(ptr %launch, i64 $DEVICE_B$, i64 -1)
  %count = call i64 @get(ptr %launch, i64 $PARTICIPANTS$)
  br label %turn
turn:
  %at = phi i64 [ 0, %entry ], [ %next, %following ]
  %more = icmp slt i64 %at, %count
  br i1 %more, label %one, label %leave
one:
  %other = call ptr @device(ptr %launch, i64 %at)
  %place = call ptr @word(ptr %other, i64 $STATE$)
  %state = load atomic i32, ptr %place monotonic, align 4
  %waits = icmp ne i32 %state, 0
  %site = call i64 @get(ptr %other, i64 $SITE$)
  ; who waits for its shadow has no site
  %known = icmp sge i64 %site, 0
  %says = and i1 %waits, %known
  br i1 %says, label %found, label %following
following:
  %next = add i64 %at, 1
  br label %turn
found:
  %index = call i64 @get(ptr %other, i64 $INDEX$)
  call void @set(ptr %launch, i64 $DEVICE_B$, i64 %index)
  call void @set(ptr %launch, i64 $SITE_B$, i64 %site)
  br label %leave
leave:
  ret void
}

; the lock is held: do all devices wait that have not ended?
define internal void @check_missing(ptr %launch, ptr %device) nounwind {
entry:
  %blocked = call i64 @get(ptr %launch, i64 $BLOCKED$)
  %finished = call i64 @get(ptr %launch, i64 $FINISHED$)
  %count = call i64 @get(ptr %launch, i64 $PARTICIPANTS$)
  %devices = call i64 @get(ptr %launch, i64 $DEVICES$)
  %shadows = sub i64 %count, %devices
  %some = icmp sgt i64 %blocked, 0
  %sum = add i64 %blocked, %finished
  %most = add i64 %sum, %shadows
  %enough = icmp sge i64 %most, %count
  %maybe = and i1 %some, %enough
  br i1 %maybe, label %turn, label %leave
turn:
  ; a shadow that has nothing to do waits for its device
  %index = phi i64 [ %devices, %entry ], [ %next, %one ]
  %still = phi i64 [ %sum, %entry ], [ %still_next, %one ]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %one, label %decide
one:
  %shadow = call ptr @device(ptr %launch, i64 %index)
  %idle = call i1 @is_idle(ptr %shadow)
  %idle_count = zext i1 %idle to i64
  %still_next = add i64 %still, %idle_count
  %next = add i64 %index, 1
  br label %turn
decide:
  %stuck = icmp eq i64 %still, %count
  br i1 %stuck, label %failed, label %leave
failed:
  call void @fail(ptr %launch, i32 $MISSING$, ptr %device, i64 -1)
  br label %leave
leave:
  ret void
}


; an exchange with other processes has failed: nobody need wait any more
define void @tetrax_devices_fail(ptr %device, i64 %site, i32 %status) nounwind {
  %launch = call ptr @get_ptr(ptr %device, i64 $LAUNCH$)
  %lock = call ptr @word(ptr %launch, i64 $LOCK$)
  call void @lock(ptr %lock)
  %wide = sext i32 %status to i64
  call void @set(ptr %launch, i64 $STATUS$, i64 %wide)
  call void @fail(ptr %launch, i32 $PROCESS$, ptr %device, i64 %site)
  call void @unlock(ptr %lock)
  ret void
}

define i32 @tetrax_devices_arrive(ptr %device, i64 %partition, i64 %site) nounwind {
entry:
  %launch = call ptr @get_ptr(ptr %device, i64 $LAUNCH$)
  %double = mul i64 %partition, 2
  %at = add i64 %double, $MEMBERSHIPS$
  %group = call ptr @get_ptr(ptr %device, i64 %at)
  %lock = call ptr @word(ptr %launch, i64 $LOCK$)
  call void @lock(ptr %lock)
  %failed_place = call ptr @word(ptr %launch, i64 $FAILED$)
  %failed = load atomic i32, ptr %failed_place monotonic, align 4
  %over = icmp ne i32 %failed, 0
  br i1 %over, label %refuse, label %look
refuse:
  call void @unlock(ptr %lock)
  ret i32 1
look:
  %arrived = call i64 @get(ptr %group, i64 $ARRIVED$)
  %first = icmp eq i64 %arrived, 0
  br i1 %first, label %open, label %compare
open:
  call void @set(ptr %group, i64 $AT$, i64 %site)
  br label %enter
compare:
  %there = call i64 @get(ptr %group, i64 $AT$)
  %same = icmp eq i64 %there, %site
  br i1 %same, label %enter, label %differ
differ:
  call void @fail(ptr %launch, i32 $MISMATCH$, ptr %device, i64 %site)
  call void @set(ptr %launch, i64 $SITE_B$, i64 %there)
  call void @unlock(ptr %lock)
  ret i32 1
enter:
  %now = add i64 %arrived, 1
  %size = call i64 @get(ptr %group, i64 $SIZE$)
  %blocked = call i64 @get(ptr %launch, i64 $BLOCKED$)
  %complete = icmp eq i64 %now, %size
  br i1 %complete, label %open_door, label %stay
open_door:
  call void @set(ptr %group, i64 $ARRIVED$, i64 0)
  %fewer = sub i64 %blocked, %arrived
  call void @set(ptr %launch, i64 $BLOCKED$, i64 %fewer)
  br label %turn
turn:
  %member = phi i64 [ 0, %open_door ], [ %next, %following ]
  %more = icmp slt i64 %member, %size
  br i1 %more, label %one, label %go
one:
  %member_words = mul i64 %member, 4
  %member_at = add i64 %member_words, $MEMBERS$
  %other = call ptr @get_ptr(ptr %group, i64 %member_at)
  %self = icmp eq ptr %other, %device
  br i1 %self, label %following, label %let_go
let_go:
  call void @release(ptr %other)
  br label %following
following:
  %next = add i64 %member, 1
  br label %turn
go:
  call void @unlock(ptr %lock)
  ret i32 0
stay:
  call void @set(ptr %group, i64 $ARRIVED$, i64 %now)
  %more_blocked = add i64 %blocked, 1
  call void @set(ptr %launch, i64 $BLOCKED$, i64 %more_blocked)
  %state = call ptr @word(ptr %device, i64 $STATE$)
  store atomic i32 1, ptr %state monotonic, align 4
  call void @set(ptr %device, i64 $SITE$, i64 %site)
  call void @check_missing(ptr %launch, ptr %device)
  call void @unlock(ptr %lock)
  %patience = call i64 @get(ptr %launch, i64 $PATIENCE$)
  call void @stay(ptr %state, i64 %patience)
  %after = load atomic i32, ptr %failed_place acquire, align 4
  %bad = icmp ne i32 %after, 0
  %answer = zext i1 %bad to i32
  ret i32 %answer
}


define internal void @release(ptr %device) nounwind {
entry:
  %state = call ptr @word(ptr %device, i64 $STATE$)
  %before = atomicrmw xchg ptr %state, i32 0 seq_cst
  %slept = icmp eq i32 %before, 2
  br i1 %slept, label %rouse, label %leave
rouse:
  call void @wake(ptr %state, i32 1)
  br label %leave
leave:
  ret void
}

define internal void @stay(ptr %state, i64 %patience) nounwind {
entry:
  br label %spin
spin:
  %turn = phi i64 [ 0, %entry ], [ %next, %pause ]
  %now = load atomic i32, ptr %state acquire, align 4
  %free = icmp eq i32 %now, 0
  br i1 %free, label %leave, label %pause
pause:
  call void @linger(i64 %turn)
  %next = add i64 %turn, 1
  %patient = icmp slt i64 %next, %patience
  br i1 %patient, label %spin, label %sleep
sleep:
  %pair = cmpxchg ptr %state, i32 1, i32 2 seq_cst seq_cst
  %last = extractvalue { i32, i1 } %pair, 0
  %gone = icmp eq i32 %last, 0
  br i1 %gone, label %leave, label %doze
doze:
  call void @wait(ptr %state, i32 2)
  br label %sleep
leave:
  ret void
}
"""
