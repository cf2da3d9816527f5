"""The first step of a sort of many keys: a pass that puts them into buckets by leading bits.

The keys' range is divided into 2048 equal parts, and every key goes to the bucket of its part
(Knuth, The Art of Computer Programming, vol. 3, 5.2.5). One such pass does the work of eleven
partitions. Threads count and move pieces of the keys, and then sort the buckets. Where many keys
share a bucket the quicksort goes on alone, as it does without this.
"""

from __future__ import annotations

BUCKETS, PIECES, GROUPS = 2048, 8, 64
"""Buckets, pieces of the keys with counts of their own, and tasks that sort the buckets."""

NO_BUCKETS = """
define internal i1 @buckets_$NAME$(ptr %keys, ptr %spare, i64 %n) alwaysinline {
  ret i1 false
}
"""

# The context of tasks: keys, spare, counts (by piece and bucket), n, size of a piece, lowest key,
# how far to shift, and the lowest and highest key by piece.
BUCKET_SORT = """
%Buckets_$NAME$ = type { ptr, ptr, ptr, i64, i64, $T$, $T$, [$PIECES$ x $T$], [$PIECES$ x $T$] }

define internal { i64, i64 } @piece_$NAME$(ptr %context, i64 %task) alwaysinline {
  %n_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 3
  %n = load i64, ptr %n_p
  %size_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 4
  %size = load i64, ptr %size_p
  %start = mul i64 %task, %size
  %from = call i64 @llvm.smin.i64(i64 %start, i64 %n)
  %end = add i64 %from, %size
  %to = call i64 @llvm.smin.i64(i64 %end, i64 %n)
  %first = insertvalue { i64, i64 } poison, i64 %from, 0
  %both = insertvalue { i64, i64 } %first, i64 %to, 1
  ret { i64, i64 } %both
}

; The lowest and the highest key of a piece.
define internal void @range_$NAME$(ptr %context, i64 %task) nounwind {
entry:
  %keys = load ptr, ptr %context
  %piece = call { i64, i64 } @piece_$NAME$(ptr %context, i64 %task)
  %from = extractvalue { i64, i64 } %piece, 0
  %to = extractvalue { i64, i64 } %piece, 1
  %none = icmp sge i64 %from, %to
  %start = select i1 %none, i64 0, i64 %from
  %first_p = getelementptr $T$, ptr %keys, i64 %start
  %first = load $T$, ptr %first_p
  br i1 %none, label %done, label %loop
loop:
  %i = phi i64 [ %from, %entry ], [ %next, %loop ]
  %low = phi $T$ [ %first, %entry ], [ %lower, %loop ]
  %high = phi $T$ [ %first, %entry ], [ %higher, %loop ]
  %key_p = getelementptr $T$, ptr %keys, i64 %i
  %key = load $T$, ptr %key_p
  %lower = call $T$ @llvm.smin.$T$($T$ %low, $T$ %key)
  %higher = call $T$ @llvm.smax.$T$($T$ %high, $T$ %key)
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %to
  br i1 %again, label %loop, label %done
done:
  %lowest = phi $T$ [ %first, %entry ], [ %lower, %loop ]
  %highest = phi $T$ [ %first, %entry ], [ %higher, %loop ]
  %low_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 7, i64 %task
  store $T$ %lowest, ptr %low_p
  %high_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 8, i64 %task
  store $T$ %highest, ptr %high_p
  ret void
}

; Sets the lowest key and the shift; answers whether all keys are equal.
define internal i1 @settle_$NAME$(ptr %context) nounwind {
entry:
  %low_0 = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 7, i64 0
  %first_low = load $T$, ptr %low_0
  %high_0 = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 8, i64 0
  %first_high = load $T$, ptr %high_0
  br label %loop
loop:
  %i = phi i64 [ 1, %entry ], [ %next, %loop ]
  %low = phi $T$ [ %first_low, %entry ], [ %lower, %loop ]
  %high = phi $T$ [ %first_high, %entry ], [ %higher, %loop ]
  %low_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 7, i64 %i
  %a = load $T$, ptr %low_p
  %high_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 8, i64 %i
  %b = load $T$, ptr %high_p
  %lower = call $T$ @llvm.smin.$T$($T$ %low, $T$ %a)
  %higher = call $T$ @llvm.smax.$T$($T$ %high, $T$ %b)
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, $PIECES$
  br i1 %again, label %loop, label %done
done:
  %lowest_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 5
  store $T$ %lower, ptr %lowest_p
  %range = sub $T$ %higher, %lower
  %some = or $T$ %range, 1
  %zeros = call $T$ @llvm.ctlz.$T$($T$ %some, i1 true)
  %spare_bits = sub $T$ $ABOVE$, %zeros
  %shift = call $T$ @llvm.smax.$T$($T$ %spare_bits, $T$ 0)
  %shift_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 6
  store $T$ %shift, ptr %shift_p
  %same = icmp eq $T$ %range, 0
  ret i1 %same
}

define internal void @count_$NAME$(ptr %context, i64 %task) nounwind {
entry:
  $BUCKET_CONTEXT$
  call void @llvm.memset.p0.i64(ptr %counts, i8 0, i64 $ROW$, i1 false)
  br i1 %some, label %loop, label %done
loop:
  $BUCKET$
  %count = load i32, ptr %count_p
  %more = add i32 %count, 1
  store i32 %more, ptr %count_p
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %to
  br i1 %again, label %loop, label %done
done:
  ret void
}

define internal void @spread_$NAME$(ptr %context, i64 %task) nounwind {
entry:
  $BUCKET_CONTEXT$
  %spare_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 1
  %spare = load ptr, ptr %spare_p
  br i1 %some, label %loop, label %done
loop:
  $BUCKET$
  %place = load i32, ptr %count_p
  %after = add i32 %place, 1
  store i32 %after, ptr %count_p
  %place_wide = zext i32 %place to i64
  %out_p = getelementptr $T$, ptr %spare, i64 %place_wide
  store $T$ %key, ptr %out_p
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %to
  br i1 %again, label %loop, label %done
done:
  ret void
}

; Counts become places, by bucket and in it by piece; gives the size of the largest bucket.
define internal i32 @places_$NAME$(ptr %counts) nounwind {
entry:
  br label %bucket
bucket:
  %b = phi i64 [ 0, %entry ], [ %b_next, %bucket_end ]
  %total = phi i32 [ 0, %entry ], [ %sum, %bucket_end ]
  %most = phi i32 [ 0, %entry ], [ %most_next, %bucket_end ]
  br label %piece
piece:
  %p = phi i64 [ 0, %bucket ], [ %p_next, %piece ]
  %running = phi i32 [ %total, %bucket ], [ %sum, %piece ]
  %at = getelementptr [$COUNT$ x i32], ptr %counts, i64 %p, i64 %b
  %count = load i32, ptr %at
  store i32 %running, ptr %at
  %sum = add i32 %running, %count
  %p_next = add i64 %p, 1
  %more = icmp slt i64 %p_next, $PIECES$
  br i1 %more, label %piece, label %bucket_end
bucket_end:
  %size = sub i32 %sum, %total
  %most_next = call i32 @llvm.smax.i32(i32 %most, i32 %size)
  %b_next = add i64 %b, 1
  %again = icmp slt i64 %b_next, $COUNT$
  br i1 %again, label %bucket, label %done
done:
  ret i32 %most_next
}

; Sorts a group of buckets, from the spare memory into the keys'.
define internal void @group_$NAME$(ptr %context, i64 %task) nounwind {
entry:
  %keys = load ptr, ptr %context
  %spare_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 1
  %spare = load ptr, ptr %spare_p
  %counts_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 2
  %counts = load ptr, ptr %counts_p
  ; where the last piece ended is where the next bucket begins
  %ends = getelementptr [$COUNT$ x i32], ptr %counts, i64 $LAST_PIECE$
  %first = mul i64 %task, $GROUP$
  %last = add i64 %first, $GROUP$
  %is_first = icmp eq i64 %task, 0
  %before = sub i64 %first, 1
  %before_index = select i1 %is_first, i64 0, i64 %before
  %before_p = getelementptr i32, ptr %ends, i64 %before_index
  %before_end = load i32, ptr %before_p
  %begin = select i1 %is_first, i32 0, i32 %before_end
  br label %loop
loop:
  %b = phi i64 [ %first, %entry ], [ %next, %step ]
  %start = phi i32 [ %begin, %entry ], [ %end, %step ]
  %end_p = getelementptr i32, ptr %ends, i64 %b
  %end = load i32, ptr %end_p
  %size = sub i32 %end, %start
  %some = icmp sgt i32 %size, 0
  br i1 %some, label %sort, label %step
sort:
  %start_wide = zext i32 %start to i64
  %size_wide = zext i32 %size to i64
  %from = getelementptr $T$, ptr %spare, i64 %start_wide
  %to = getelementptr $T$, ptr %keys, i64 %start_wide
  %depth = call i64 @depth_$NAME$(i64 %size_wide)
  call void @quick_$NAME$(ptr %from, ptr %to, i64 %size_wide, i64 0, i64 %size_wide, i1 true,
    i64 %depth, i64 %size_wide)
  br label %step
step:
  %next = add i64 %b, 1
  %again = icmp slt i64 %next, %last
  br i1 %again, label %loop, label %done
done:
  ret void
}

; Sorts keys by way of buckets; answers false, with nothing done, where that would not help.
define internal i1 @buckets_$NAME$(ptr %keys, ptr %spare, i64 %n) noinline nounwind {
entry:
  %context = alloca %Buckets_$NAME$
  %counts = alloca [$ALL$ x i32]
  %long = icmp sgt i64 %n, 2000000000
  br i1 %long, label %refuse, label %begin
begin:
  store ptr %keys, ptr %context
  %spare_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 1
  store ptr %spare, ptr %spare_p
  %counts_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 2
  store ptr %counts, ptr %counts_p
  %n_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 3
  store i64 %n, ptr %n_p
  %up = add i64 %n, $LAST_PIECE$
  %size = sdiv i64 %up, $PIECES$
  %size_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 4
  store i64 %size, ptr %size_p
  call void @tetrax_parallel(ptr @range_$NAME$, ptr %context, i64 $PIECES$, i64 %n)
  %same = call i1 @settle_$NAME$(ptr %context)
  br i1 %same, label %done, label %count
count:
  call void @tetrax_parallel(ptr @count_$NAME$, ptr %context, i64 $PIECES$, i64 %n)
  %most = call i32 @places_$NAME$(ptr %counts)
  %most_wide = zext i32 %most to i64
  %least = mul i64 %most_wide, 8
  %crowded = icmp sgt i64 %least, %n
  br i1 %crowded, label %refuse, label %spread
spread:
  %work = mul i64 %n, 8
  call void @tetrax_parallel(ptr @spread_$NAME$, ptr %context, i64 $PIECES$, i64 %n)
  call void @tetrax_parallel(ptr @group_$NAME$, ptr %context, i64 $GROUPS$, i64 %work)
  br label %done
done:
  ret i1 true
refuse:
  ret i1 false
}
"""

BUCKET_VALUES = {
    # What a task over a piece begins with, and what it does with each key.
    "BUCKET_CONTEXT": """%keys = load ptr, ptr %context
  %all_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 2
  %all = load ptr, ptr %all_p
  %counts = getelementptr [$COUNT$ x i32], ptr %all, i64 %task
  %lowest_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 5
  %lowest = load $T$, ptr %lowest_p
  %shift_p = getelementptr %Buckets_$NAME$, ptr %context, i64 0, i32 6
  %shift = load $T$, ptr %shift_p
  %piece = call { i64, i64 } @piece_$NAME$(ptr %context, i64 %task)
  %from = extractvalue { i64, i64 } %piece, 0
  %to = extractvalue { i64, i64 } %piece, 1
  %some = icmp slt i64 %from, %to""",
    "BUCKET": """%i = phi i64 [ %from, %entry ], [ %next, %loop ]
  %key_p = getelementptr $T$, ptr %keys, i64 %i
  %key = load $T$, ptr %key_p
  %above = sub $T$ %key, %lowest
  %bucket = lshr $T$ %above, %shift
  %count_p = getelementptr i32, ptr %counts, $T$ %bucket""",
    "PIECES": str(PIECES),
    "LAST_PIECE": str(PIECES - 1),
    "COUNT": str(BUCKETS),
    "ROW": str(4 * BUCKETS),
    "ALL": str(PIECES * BUCKETS),
    "GROUPS": str(GROUPS),
    "GROUP": str(BUCKETS // GROUPS),
}
"""In order: what is filled in first holds names of what comes later."""
