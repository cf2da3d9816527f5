"""The texts of the sort's functions; `$…$` stands for what differs between kinds of elements.

A routine's data are a pointer to keys and the distance (in elements) from a key to its position.
"""

from __future__ import annotations

NETWORKS = (16, 32, 64)
"""Elements that the networks take; what is not full is filled up with largest keys."""

# What the templates say of positions: nothing where keys go alone.
KEYS_ONLY = {
    "ROOM": str(NETWORKS[-1]),
    "BELOW": "%r = icmp slt $T$ %u, %v\n  ret i1 %r",
    # Past the pivot is the next integer; past the largest nothing is, and all are equal.
    "NEXT_PIVOT": """%largest = icmp eq $T$ %k, $LARGEST$
  %k1 = add $T$ %k, 1
  %p1 = add i64 %p, 0""",
    **dict.fromkeys(
        (
            "HOLD_POSITION",
            "FILL",
            "COPY_IN",
            "COPY_OUT",
            "SWAP_POSITIONS",
            "SAMPLE_POSITION",
            "PIVOT_POSITION",
            "CARRY_POSITIONS",
        ),
        "",
    ),
}
WITH_POSITIONS = {
    "ROOM": str(2 * NETWORKS[-1]),
    "BELOW": """%xp = getelementptr i64, ptr %x, i64 %gap
  %vp_place = getelementptr i64, ptr %hold, i64 1
  %up = load i64, ptr %xp, align 8
  %vp = load i64, ptr %vp_place, align 8
  %below = icmp slt i64 %u, %v
  %same = icmp eq i64 %u, %v
  %first = icmp slt i64 %up, %vp
  %tie = and i1 %same, %first
  %r = or i1 %below, %tie
  ret i1 %r""",
    "HOLD_POSITION": """%holdp = getelementptr i64, ptr %hold, i64 1
  store i64 %pivotp, ptr %holdp, align 8""",
    "FILL": """%fp = getelementptr i64, ptr %f, i64 $MOST$
  store i64 $LARGEST$, ptr %fp, align 8""",
    "COPY_IN": """%bufferp = getelementptr i64, ptr %buffer, i64 $MOST$
  %srcp = getelementptr i64, ptr %src, i64 %gap
  call void @llvm.memcpy.p0.p0.i64(ptr %bufferp, ptr %srcp, i64 %bytes, i1 false)""",
    "COPY_OUT": """%outp = getelementptr i64, ptr %out, i64 %gap
  call void @llvm.memcpy.p0.p0.i64(ptr %outp, ptr %bufferp, i64 %bytes, i1 false)""",
    "SWAP_POSITIONS": """%xp = getelementptr i64, ptr %x, i64 %gap
  %yp = getelementptr i64, ptr %y, i64 %gap
  %up = load i64, ptr %xp, align 8
  %vp = load i64, ptr %yp, align 8
  store i64 %vp, ptr %xp, align 8
  store i64 %up, ptr %yp, align 8""",
    "SAMPLE_POSITION": """%xp = getelementptr i64, ptr %x, i64 %gap
  %up = load i64, ptr %xp, align 8
  %yp = getelementptr i64, ptr %y, i64 $MOST$
  store i64 %up, ptr %yp, align 8""",
    "PIVOT_POSITION": """%mp = getelementptr i64, ptr %m, i64 $MOST$
  %kp = load i64, ptr %mp, align 8
  %outp = getelementptr i64, ptr %out, i64 1
  store i64 %kp, ptr %outp, align 8""",
    # No two pairs are equal.
    "NEXT_PIVOT": """%largest = icmp eq i64 0, 1
  %k1 = add i64 %k, 0
  %p1 = add i64 %p, 1""",
    "CARRY_POSITIONS": """%srcp = getelementptr i64, ptr %src, i64 %gap
  %outp = getelementptr i64, ptr %out, i64 %gap
  call void @llvm.memcpy.p0.p0.i64(ptr %outp, ptr %srcp, i64 %bytes, i1 false)""",
}


PARTITION = """
define internal i64 @partition_$NAME$(ptr %src, ptr %dst, i64 %n, $T$ %pivot, i64 %pivotp, i64 %gap)
    noinline nounwind {
entry:
  %iv = alloca i64, align 8
  %lv = alloca i64, align 8
  %rv = alloca i64, align 8
  %hold = alloca [2 x $T$], align 8
  store i64 0, ptr %iv, align 8
  store i64 0, ptr %lv, align 8
  store i64 %n, ptr %rv, align 8
  store $T$ %pivot, ptr %hold, align 8
  $HOLD_POSITION$
$VECTORS$
  br label %shead
shead:
  %i = load i64, ptr %iv, align 8
  %some = icmp slt i64 %i, %n
  br i1 %some, label %sbody, label %done
sbody:
  %l = load i64, ptr %lv, align 8
  %r = load i64, ptr %rv, align 8
  %x = getelementptr $T$, ptr %src, i64 %i
  %small = call i1 @below_$NAME$(ptr %x, i64 %gap, ptr %hold)
  %r1 = sub i64 %r, 1
  %to = select i1 %small, i64 %l, i64 %r1
  call void @move_$NAME$(ptr %src, i64 %i, ptr %dst, i64 %to, i64 %gap)
  %step = zext i1 %small to i64
  %l2 = add i64 %l, %step
  %r2 = add i64 %r1, %step
  store i64 %l2, ptr %lv, align 8
  store i64 %r2, ptr %rv, align 8
  %i2 = add i64 %i, 1
  store i64 %i2, ptr %iv, align 8
  br label %shead
done:
  %count = load i64, ptr %lv, align 8
  ret i64 %count
}

define internal i1 @below_$NAME$(ptr %x, i64 %gap, ptr %hold) alwaysinline {
entry:
  %u = load $T$, ptr %x, align $BYTES$
  %v = load $T$, ptr %hold, align $BYTES$
  $BELOW$
}
"""

SMALL = """
define internal void @small_$NAME$(ptr %src, ptr %out, i64 %n, i64 %gap) nounwind {
entry:
  %buffer = alloca [$ROOM$ x $T$], align 64
  %few = icmp sle i64 %n, 16
  %some = icmp sle i64 %n, 32
  %larger = select i1 %some, i64 32, i64 $MOST$
  %size = select i1 %few, i64 16, i64 %larger
  br label %fill
fill:
  %i = phi i64 [ %n, %entry ], [ %i2, %fbody ]
  %empty = icmp slt i64 %i, %size
  br i1 %empty, label %fbody, label %copy
fbody:
  %f = getelementptr $T$, ptr %buffer, i64 %i
  store $T$ $LARGEST$, ptr %f, align $BYTES$
  $FILL$
  %i2 = add i64 %i, 1
  br label %fill
copy:
  %bytes = mul i64 %n, $BYTES$
  call void @llvm.memcpy.p0.p0.i64(ptr %buffer, ptr %src, i64 %bytes, i1 false)
  $COPY_IN$
  br i1 %few, label %low, label %above
low:
  call void @network_$NAME$_16(ptr %buffer, i64 $MOST$)
  br label %back
above:
  br i1 %some, label %middle, label %high
middle:
  call void @network_$NAME$_32(ptr %buffer, i64 $MOST$)
  br label %back
high:
  call void @network_$NAME$_$MOST$(ptr %buffer, i64 $MOST$)
  br label %back
back:
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %buffer, i64 %bytes, i1 false)
  $COPY_OUT$
  ret void
}
"""

HEAP = """
define internal void @sift_$NAME$(ptr %a, i64 %start, i64 %n, i64 %gap) nounwind {
entry:
  br label %head
head:
  %at = phi i64 [ %start, %entry ], [ %next, %swap ]
  %twice = shl i64 %at, 1
  %left = add i64 %twice, 1
  %inside = icmp slt i64 %left, %n
  br i1 %inside, label %pick, label %done
pick:
  %right = add i64 %twice, 2
  %two = icmp slt i64 %right, %n
  br i1 %two, label %both, label %chosen
both:
  %larger = call i1 @less_$NAME$(ptr %a, i64 %left, ptr %a, i64 %right, i64 %gap)
  %which = select i1 %larger, i64 %right, i64 %left
  br label %chosen
chosen:
  %next = phi i64 [ %left, %pick ], [ %which, %both ]
  %down = call i1 @less_$NAME$(ptr %a, i64 %at, ptr %a, i64 %next, i64 %gap)
  br i1 %down, label %swap, label %done
swap:
  call void @swap_$NAME$(ptr %a, i64 %at, i64 %next, i64 %gap)
  br label %head
done:
  ret void
}

define internal void @swap_$NAME$(ptr %a, i64 %i, i64 %j, i64 %gap) nounwind {
  %x = getelementptr $T$, ptr %a, i64 %i
  %y = getelementptr $T$, ptr %a, i64 %j
  %u = load $T$, ptr %x, align $BYTES$
  %v = load $T$, ptr %y, align $BYTES$
  store $T$ %v, ptr %x, align $BYTES$
  store $T$ %u, ptr %y, align $BYTES$
  $SWAP_POSITIONS$
  ret void
}

define internal void @heap_$NAME$(ptr %a, i64 %n, i64 %gap) nounwind {
entry:
  %half = lshr i64 %n, 1
  br label %build
build:
  %b = phi i64 [ %half, %entry ], [ %b1, %bbody ]
  %more = icmp sgt i64 %b, 0
  br i1 %more, label %bbody, label %take
bbody:
  %b1 = sub i64 %b, 1
  call void @sift_$NAME$(ptr %a, i64 %b1, i64 %n, i64 %gap)
  br label %build
take:
  %t = phi i64 [ %n, %build ], [ %t1, %tbody ]
  %left = icmp sgt i64 %t, 1
  br i1 %left, label %tbody, label %done
tbody:
  %t1 = sub i64 %t, 1
  call void @swap_$NAME$(ptr %a, i64 0, i64 %t1, i64 %gap)
  call void @sift_$NAME$(ptr %a, i64 0, i64 %t1, i64 %gap)
  br label %take
done:
  ret void
}
"""

PIVOT = """
define internal void @pivot_$NAME$(ptr %src, i64 %n, i64 %gap, ptr %out) nounwind {
entry:
  %buffer = alloca [$ROOM$ x $T$], align 64
  %many = icmp sge i64 %n, 1024
  %size = select i1 %many, i64 $MOST$, i64 16
  %stride = udiv i64 %n, %size
  %half = lshr i64 %stride, 1
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i2, %head ]
  %start = mul i64 %i, %stride
  %at = add i64 %start, %half
  %x = getelementptr $T$, ptr %src, i64 %at
  %u = load $T$, ptr %x, align $BYTES$
  %y = getelementptr $T$, ptr %buffer, i64 %i
  store $T$ %u, ptr %y, align $BYTES$
  $SAMPLE_POSITION$
  %i2 = add i64 %i, 1
  %more = icmp slt i64 %i2, %size
  br i1 %more, label %head, label %sort
sort:
  br i1 %many, label %high, label %low
low:
  call void @network_$NAME$_16(ptr %buffer, i64 $MOST$)
  br label %done
high:
  call void @network_$NAME$_$MOST$(ptr %buffer, i64 $MOST$)
  br label %done
done:
  %middle = lshr i64 %size, 1
  %m = getelementptr $T$, ptr %buffer, i64 %middle
  %k = load $T$, ptr %m, align $BYTES$
  store $T$ %k, ptr %out, align 8
  $PIVOT_POSITION$
  ret void
}

; One step: `src` is partitioned into `dst`; gives how many elements come first. If none does, the
; pivot is the smallest key: those equal to it are moved to the front, and the result is ~count.
define internal i64 @split_$NAME$(ptr %src, ptr %dst, i64 %n, i64 %gap) nounwind {
entry:
  %pivot = alloca [2 x i64], align 8
  %second = getelementptr i64, ptr %pivot, i64 1
  store i64 0, ptr %second, align 8
  call void @pivot_$NAME$(ptr %src, i64 %n, i64 %gap, ptr %pivot)
  %k = load $T$, ptr %pivot, align 8
  %p = load i64, ptr %second, align 8
  %count = call i64 @partition_$NAME$(ptr %src, ptr %dst, i64 %n, $T$ %k, i64 %p, i64 %gap)
  %none = icmp eq i64 %count, 0
  br i1 %none, label %again, label %done
done:
  ret i64 %count
again:
  $NEXT_PIVOT$
  %equal = call i64 @partition_$NAME$(ptr %src, ptr %dst, i64 %n, $T$ %k1, i64 %p1, i64 %gap)
  %all = select i1 %largest, i64 %n, i64 %equal
  %flagged = xor i64 %all, -1
  ret i64 %flagged
}
"""

QUICK = """
; Sorts `src`, using `other`, and leaves the result in `src` or, if `across`, in `other`.
define internal void @quick_$NAME$(ptr %src, ptr %other, i64 %n, i64 %first, i64 %last, i1 %across,
    i64 %depth, i64 %gap) nounwind {
entry:
  %before = icmp sle i64 %last, 0
  %after = icmp sge i64 %first, %n
  %outside = or i1 %before, %after
  br i1 %outside, label %done, label %inside
inside:
  %out = select i1 %across, ptr %other, ptr %src
  %few = icmp sle i64 %n, $MOST$
  br i1 %few, label %small, label %large
small:
  call void @small_$NAME$(ptr %src, ptr %out, i64 %n, i64 %gap)
  br label %done
large:
  %tired = icmp eq i64 %depth, 0
  br i1 %tired, label %heap, label %split
heap:
  call void @carry_$NAME$(ptr %src, ptr %out, i64 %n, i1 %across, i64 %gap)
  call void @heap_$NAME$(ptr %out, i64 %n, i64 %gap)
  br label %done
split:
  %found = call i64 @split_$NAME$(ptr %src, ptr %other, i64 %n, i64 %gap)
  %same = icmp slt i64 %found, 0
  %flipped = xor i64 %found, -1
  %count = select i1 %same, i64 %flipped, i64 %found
  %rest = sub i64 %n, %count
  %next = sub i64 %depth, 1
  %back = xor i1 %across, true
  %src2 = getelementptr $T$, ptr %src, i64 %count
  %other2 = getelementptr $T$, ptr %other, i64 %count
  %first2 = sub i64 %first, %count
  %last2 = sub i64 %last, %count
  br i1 %same, label %equal, label %both
equal:
  call void @carry_$NAME$(ptr %other, ptr %src, i64 %count, i1 %back, i64 %gap)
  br label %second
both:
  call void @quick_$NAME$(ptr %other, ptr %src, i64 %count, i64 %first, i64 %last, i1 %back,
    i64 %next, i64 %gap)
  br label %second
second:
  %some = icmp sgt i64 %rest, 0
  br i1 %some, label %go, label %done
go:
  call void @quick_$NAME$(ptr %other2, ptr %src2, i64 %rest, i64 %first2, i64 %last2, i1 %back,
    i64 %next, i64 %gap)
  br label %done
done:
  ret void
}

define internal void @carry_$NAME$(ptr %src, ptr %out, i64 %n, i1 %needed, i64 %gap) nounwind {
entry:
  br i1 %needed, label %copy, label %done
copy:
  %bytes = mul i64 %n, $BYTES$
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %src, i64 %bytes, i1 false)
  $CARRY_POSITIONS$
  br label %done
done:
  ret void
}

define internal i64 @depth_$NAME$(i64 %n) alwaysinline {
  %some = or i64 %n, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %some, i1 true)
  %bits = sub i64 64, %zeros
  %twice = shl i64 %bits, 1
  ret i64 %twice
}
"""

# What a task reads of the context, and where the half `%which` begins and how long it is.
CONTEXT = """%keys = load ptr, ptr %context, align 8
  %spare_p = getelementptr i64, ptr %context, i64 1
  %spare = load ptr, ptr %spare_p, align 8
  %n_p = getelementptr i64, ptr %context, i64 2
  %n = load i64, ptr %n_p, align 8
  %gap_p = getelementptr i64, ptr %context, i64 3
  %gap = load i64, ptr %gap_p, align 8
  %count_p = getelementptr i64, ptr %context, i64 4
  %count = load i64, ptr %count_p, align 8
  %second = icmp eq i64 %which, 1
  %start = select i1 %second, i64 %count, i64 0
  %rest = sub i64 %n, %count
  %size = select i1 %second, i64 %rest, i64 %count"""

# The context of tasks: keys, spare, n, gap, then the counts of the three splits.
TASKS = """
define internal void @halve_$NAME$(ptr %context, i64 %task) nounwind {
  %which = add i64 %task, 0
  $CONTEXT$
  %a = getelementptr $T$, ptr %spare, i64 %start
  %b = getelementptr $T$, ptr %keys, i64 %start
  %place = add i64 %which, 5
  %out = getelementptr i64, ptr %context, i64 %place
  %few = icmp sle i64 %size, $MOST$
  br i1 %few, label %small, label %large
small:
  call void @carry_$NAME$(ptr %a, ptr %b, i64 %size, i1 true, i64 %gap)
  store i64 %size, ptr %out, align 8
  ret void
large:
  %found = call i64 @split_$NAME$(ptr %a, ptr %b, i64 %size, i64 %gap)
  store i64 %found, ptr %out, align 8
  ret void
}

define internal void @quarter_$NAME$(ptr %context, i64 %task) nounwind {
  %which = lshr i64 %task, 1
  $CONTEXT$
  %place = add i64 %which, 5
  %found_p = getelementptr i64, ptr %context, i64 %place
  %found = load i64, ptr %found_p, align 8
  %same = icmp slt i64 %found, 0
  %flipped = xor i64 %found, -1
  %low = select i1 %same, i64 %flipped, i64 %found
  %odd = and i64 %task, 1
  %upper = icmp eq i64 %odd, 1
  %shift = select i1 %upper, i64 %low, i64 0
  %from = add i64 %start, %shift
  %above = sub i64 %size, %low
  %length = select i1 %upper, i64 %above, i64 %low
  %a = getelementptr $T$, ptr %keys, i64 %from
  %b = getelementptr $T$, ptr %spare, i64 %from
  %lower = xor i1 %upper, true
  %sorted = and i1 %same, %lower
  %nothing = icmp sle i64 %length, 1
  %skip = or i1 %sorted, %nothing
  br i1 %skip, label %done, label %sort
sort:
  %depth = call i64 @depth_$NAME$(i64 %length)
  call void @quick_$NAME$(ptr %a, ptr %b, i64 %length, i64 0, i64 %length, i1 false, i64 %depth,
    i64 %gap)
  br label %done
done:
  ret void
}
"""

ENTRY = """
define void @tetrax_sort_$NAME$(ptr %keys, ptr %spare, i64 %n, i64 %first, i64 %last) nounwind {
entry:
  %context = alloca [8 x i64], align 8
  %none = icmp sle i64 %n, 1
  br i1 %none, label %done, label %some
some:
  %from = icmp eq i64 %first, 0
  %to = icmp eq i64 %last, %n
  %whole = and i1 %from, %to
  %long = icmp sge i64 %n, $SHARED$
  %share = and i1 %whole, %long
  br i1 %share, label %shared, label %alone
alone:
  %depth = call i64 @depth_$NAME$(i64 %n)
  call void @quick_$NAME$(ptr %keys, ptr %spare, i64 %n, i64 %first, i64 %last, i1 false,
    i64 %depth, i64 %n)
  br label %done
shared:
  %sorted = call i1 @buckets_$NAME$(ptr %keys, ptr %spare, i64 %n)
  br i1 %sorted, label %done, label %halves
halves:
  %found = call i64 @split_$NAME$(ptr %keys, ptr %spare, i64 %n, i64 %n)
  %same = icmp slt i64 %found, 0
  %flipped = xor i64 %found, -1
  %count = select i1 %same, i64 %flipped, i64 %found
  store ptr %keys, ptr %context, align 8
  %spare_p = getelementptr i64, ptr %context, i64 1
  store ptr %spare, ptr %spare_p, align 8
  %n_p = getelementptr i64, ptr %context, i64 2
  store i64 %n, ptr %n_p, align 8
  %gap_p = getelementptr i64, ptr %context, i64 3
  store i64 %n, ptr %gap_p, align 8
  %count_p = getelementptr i64, ptr %context, i64 4
  store i64 %count, ptr %count_p, align 8
  %work = mul i64 %n, 6
  call void @tetrax_parallel(ptr @halve_$NAME$, ptr %context, i64 2, i64 %n)
  call void @tetrax_parallel(ptr @quarter_$NAME$, ptr %context, i64 4, i64 %work)
  br label %done
done:
  ret void
}
"""
