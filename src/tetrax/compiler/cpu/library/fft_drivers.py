"""The texts that put passes together to the routines of Fourier transforms; `$…$` stands for what
differs between element types, and for the calls of passes by their number.

`in` is where numbers are, `a` and `b` are panels that passes go between, `tw` are twiddles.
"""

from __future__ import annotations

# Passes over a panel: from `in` to `a`, from there to `b` and back; gives where the outcome is.
PANEL = """
define internal ptr @panel(ptr %in0, ptr %a0, ptr %b0, ptr %tw0, i64 %n0, i64 %s0, i64 %radices0)
    nounwind {
entry:
  br label %head
head:
  %in = phi ptr [ %in0, %entry ], [ %a, %next ]
  %a = phi ptr [ %a0, %entry ], [ %b, %next ]
  %b = phi ptr [ %b0, %entry ], [ %a, %next ]
  %tw = phi ptr [ %tw0, %entry ], [ %tw2, %next ]
  %n = phi i64 [ %n0, %entry ], [ %m, %next ]
  %s = phi i64 [ %s0, %entry ], [ %s2, %next ]
  %radices = phi i64 [ %radices0, %entry ], [ %radices2, %next ]
  %none = icmp eq i64 %radices, 0
  br i1 %none, label %leave, label %step
step:
  %r = and i64 %radices, 127
  %m = udiv i64 %n, %r
  switch i64 %r, label %odd [ $PASSES$ ]
odd:
  call void @pass_odd(ptr %in, ptr %a, ptr %tw, i64 %m, i64 %s, i64 %r)
  br label %next
$PASS_CALLS$
next:
  %roots = phi i64 [ %r, %odd ], $NO_ROOTS$
  %m1 = sub i64 %m, 1
  %r1 = sub i64 %r, 1
  %twiddles = mul i64 %m1, %r1
  %factors = add i64 %twiddles, %roots
  %scalars = shl i64 %factors, 1
  %tw2 = getelementptr $T$, ptr %tw, i64 %scalars
  %s2 = mul i64 %s, %r
  %radices2 = lshr i64 %radices, 7
  br label %head
leave:
  ret ptr %in
}
"""

# The same over several panels; gives where the first outcome is.
PANELS = """
declare ptr @tetrax_local_memory(i64)

define internal ptr @panels(ptr %in, i64 %in_pitch, ptr %a, ptr %b, i64 %pitch, i64 %blocks,
    ptr %tw, i64 %n, i64 %s, i64 %radices) nounwind {
entry:
  %first = call ptr @panel(ptr %in, ptr %a, ptr %b, ptr %tw, i64 %n, i64 %s, i64 %radices)
  br label %head
head:
  %c = phi i64 [ 1, %entry ], [ %c2, %body ]
  %more = icmp slt i64 %c, %blocks
  br i1 %more, label %body, label %leave
body:
  %in_at = mul i64 %c, %in_pitch
  %at = mul i64 %c, %pitch
  %in_c = getelementptr $T$, ptr %in, i64 %in_at
  %a_c = getelementptr $T$, ptr %a, i64 %at
  %b_c = getelementptr $T$, ptr %b, i64 %at
  %next = call ptr @panel(ptr %in_c, ptr %a_c, ptr %b_c, ptr %tw, i64 %n, i64 %s, i64 %radices)
  %c2 = add i64 %c, 1
  br label %head
leave:
  ret ptr %first
}

; Memory of the thread for pairs of panels.
define internal ptr @local(i64 %pitch, i64 %blocks) alwaysinline {
  %scalars = mul i64 %pitch, %blocks
  %end = getelementptr $T$, ptr null, i64 %scalars
  %bytes = ptrtoint ptr %end to i64
  %place = call ptr @tetrax_local_memory(i64 %bytes)
  ret ptr %place
}

; Scalars in a panel.
define internal i64 @panel_size(i64 %n) alwaysinline {
  %more = add i64 %n, $W$
  %above = sub i64 %more, 1
  %whole = and i64 %above, -$W$
  %cell = mul i64 $W$, 2
  %scalars = mul i64 %whole, %cell
  ret i64 %scalars
}
"""

# Passes from columns in memory: `blocks` full ones, the first pass of which reads them, or one with
# `lanes` columns.
START = """
define internal ptr @start(ptr %memory, i64 %row, i64 %lanes, i64 %blocks, ptr %a, ptr %b,
    i64 %pitch, ptr %tw, i64 %n, i64 %radices, i64 %inverse) nounwind {
entry:
  %swap = icmp ne i64 %inverse, 0
  %re = select i1 %swap, i64 $W$, i64 0
  %full = icmp eq i64 %lanes, $W$
  %ahead = mul i64 %row, $AHEAD$
  br i1 %full, label %whole, label %some
some:
  call void @get_columns_some(ptr %memory, ptr %a, i64 %row, i64 %n, i64 %lanes, i64 %re, i64 1,
    i64 0)
  br label %plain
whole:
  %r = and i64 %radices, 127
  %r0 = call i64 @llvm.umax.i64(i64 %r, i64 1)
  %m = udiv i64 %n, %r0
  switch i64 %r, label %all [ $OUTER$ ]
all:
  call void @get_columns_all(ptr %memory, ptr %a, i64 %row, i64 %n, i64 %lanes, i64 %re,
    i64 %blocks, i64 %pitch)
  br label %plain
plain:
  %outcome = call ptr @panels(ptr %a, i64 %pitch, ptr %b, ptr %a, i64 %pitch, i64 %blocks,
    ptr %tw, i64 %n, i64 1, i64 %radices)
  ret ptr %outcome
$FIRST_CALLS$
done:
  %m1 = sub i64 %m, 1
  %r1 = sub i64 %r, 1
  %factors = mul i64 %m1, %r1
  %scalars = shl i64 %factors, 1
  %tw2 = getelementptr $T$, ptr %tw, i64 %scalars
  %rest = lshr i64 %radices, 7
  %result = call ptr @panels(ptr %a, i64 %pitch, ptr %b, ptr %a, i64 %pitch, i64 %blocks,
    ptr %tw2, i64 %m, i64 %r, i64 %rest)
  ret ptr %result
}
"""

# The last pass, into columns in memory.
FINISH = """
define internal void @finish(ptr %in, i64 %in_pitch, ptr %a, ptr %b, i64 %pitch, ptr %tw,
    ptr %memory, i64 %row, i64 %lanes, i64 %blocks, i64 %n, i64 %last, i64 %inverse, i64 %ahead,
    $T$ %scale) nounwind {
entry:
  %swap = icmp ne i64 %inverse, 0
  %re = select i1 %swap, i64 $W$, i64 0
  %r0 = call i64 @llvm.umax.i64(i64 %last, i64 1)
  %s = udiv i64 %n, %r0
  %in_a = icmp eq ptr %in, %a
  %spare = select i1 %in_a, ptr %b, ptr %a
  %full = icmp eq i64 %lanes, $W$
  br i1 %full, label %whole, label %some
some:
  %part = call ptr @panel(ptr %in, ptr %spare, ptr %in, ptr %tw, i64 %last, i64 %s, i64 %last)
  call void @put_columns_some(ptr %memory, ptr %part, i64 %row, i64 %n, i64 %lanes, i64 %re, i64 1,
    i64 0, $T$ %scale)
  br label %done
whole:
  switch i64 %last, label %all [ $OUTER$ ]
all:
  %out = call ptr @panels(ptr %in, i64 %in_pitch, ptr %spare, ptr %in, i64 %pitch, i64 %blocks,
    ptr %tw, i64 %last, i64 %s, i64 %last)
  %same = icmp eq ptr %out, %in
  %out_pitch = select i1 %same, i64 %in_pitch, i64 %pitch
  call void @put_columns_all(ptr %memory, ptr %out, i64 %row, i64 %n, i64 %lanes, i64 %re,
    i64 %blocks, i64 %out_pitch, $T$ %scale)
  br label %done
$LAST_CALLS$
done:
  ret void
}
"""

COLUMNS = """
define internal void @columns(ptr %in, ptr %tw, ptr %ltw, ptr %out, i64 %lanes,
    i64 %blocks, i64 %in_row, i64 %out_row, i64 %n, i64 %radices, i64 %last, i64 %inverse,
    $T$ %scale) nounwind {
  %size = call i64 @panel_size(i64 %n)
  %pitch = shl i64 %size, 1
  %a = call ptr @local(i64 %pitch, i64 %blocks)
  %b = getelementptr $T$, ptr %a, i64 %size
  %made = call ptr @start(ptr %in, i64 %in_row, i64 %lanes, i64 %blocks, ptr %a, ptr %b,
    i64 %pitch, ptr %tw, i64 %n, i64 %radices, i64 %inverse)
  %ahead = mul i64 %out_row, $AHEAD$
  call void @finish(ptr %made, i64 %pitch, ptr %a, ptr %b, i64 %pitch, ptr %ltw, ptr %out,
    i64 %out_row, i64 %lanes, i64 %blocks, i64 %n, i64 %last, i64 %inverse, i64 %ahead, $T$ %scale)
  ret void
}

define void @tetrax_fft_columns_$TYPE$(ptr %in, ptr %tw, ptr %out, i64 %elements,
    i64 %lanes, i64 %in_row, i64 %out_row, i64 %n, i64 %radices, i64 %last, i64 %last_place,
    i64 %inverse, $T$ %scale) nounwind {
entry:
  %ltw = getelementptr $T$, ptr %tw, i64 %last_place
  $PARTS$
full:
  call void @columns(ptr %in, ptr %tw, ptr %ltw, ptr %out, i64 $W$, i64 %blocks,
    i64 %in_row, i64 %out_row, i64 %n, i64 %radices, i64 %last, i64 %inverse, $T$ %scale)
  br label %left
left:
  br i1 %odd, label %part, label %done
part:
  %in_rest = getelementptr $T$, ptr %in, i64 %done_scalars
  %out_rest = getelementptr $T$, ptr %out, i64 %done_scalars
  call void @columns(ptr %in_rest, ptr %tw, ptr %ltw, ptr %out_rest, i64 %rest, i64 1,
    i64 %in_row, i64 %out_row, i64 %n, i64 %radices, i64 %last, i64 %inverse, $T$ %scale)
  br label %done
done:
  ret void
}
"""

# Full blocks, and what is left of the columns.
PARTS = """%blocks = udiv i64 %lanes, $W$
  %rest = urem i64 %lanes, $W$
  %cells = mul i64 %blocks, $W$
  %done_scalars = shl i64 %cells, 1
  %some = icmp ne i64 %blocks, 0
  %odd = icmp ne i64 %rest, 0
  br i1 %some, label %full, label %left"""

ROWS = """
define void @tetrax_fft_rows_$TYPE$(ptr %in, ptr %tw, ptr %out, i64 %elements, i64 %lanes,
    i64 %in_row, i64 %out_row, i64 %n, i64 %radices, i64 %last, i64 %last_place, i64 %inverse,
    $T$ %scale) nounwind {
  %size = call i64 @panel_size(i64 %n)
  %pitch = shl i64 %size, 1
  %a = call ptr @local(i64 %pitch, i64 1)
  %b = getelementptr $T$, ptr %a, i64 %size
  %ltw = getelementptr $T$, ptr %tw, i64 %last_place
  %swap = icmp ne i64 %inverse, 0
  %re = select i1 %swap, i64 $W$, i64 0
  call void @get_rows(ptr %in, ptr %a, i64 %in_row, i64 %n, i64 %lanes, i64 %re)
  %made = call ptr @panel(ptr %a, ptr %b, ptr %a, ptr %tw, i64 %n, i64 1, i64 %radices)
  %in_a = icmp eq ptr %made, %a
  %spare = select i1 %in_a, ptr %b, ptr %a
  %some = call i64 @llvm.umax.i64(i64 %last, i64 1)
  %s = udiv i64 %n, %some
  %whole = call ptr @panel(ptr %made, ptr %spare, ptr %made, ptr %ltw, i64 %last, i64 %s, i64 %last)
  call void @put_rows(ptr %out, ptr %whole, i64 %out_row, i64 %n, i64 %lanes, i64 %re, $T$ %scale)
  ret void
}
"""

LINE = """
define void @tetrax_fft_line_$TYPE$(ptr %in, ptr %tw, ptr %out, i64 %elements, i64 %m,
    i64 %radices, i64 %last, i64 %last_place, i64 %inverse,
    $T$ %scale) nounwind {
entry:
  %size = call i64 @panel_size(i64 %m)
  %pitch = shl i64 %size, 1
  %a = call ptr @local(i64 %pitch, i64 1)
  %b = getelementptr $T$, ptr %a, i64 %size
  %swap = icmp ne i64 %inverse, 0
  br i1 %swap, label %yes, label %no
yes:
  call void @front_swapped(ptr %in, ptr %a, ptr %tw, i64 %m)
  br label %rest
no:
  call void @front(ptr %in, ptr %a, ptr %tw, i64 %m)
  br label %rest
rest:
  %cells = mul i64 %m, $W$
  %ahead = mul i64 %cells, 2
  %more = add i64 %m, $W$
  %above = sub i64 %more, 1
  %blocks = udiv i64 %above, $W$
  %less = sub i64 $W$, 1
  %each = mul i64 %less, $W$
  %numbers = mul i64 %blocks, %each
  %scalars = shl i64 %numbers, 1
  %tw2 = getelementptr $T$, ptr %tw, i64 %scalars
  %ltw = getelementptr $T$, ptr %tw2, i64 %last_place
  %made = call ptr @panel(ptr %a, ptr %b, ptr %a, ptr %tw2, i64 %m, i64 1, i64 %radices)
  call void @finish(ptr %made, i64 0, ptr %a, ptr %b, i64 0, ptr %ltw, ptr %out, i64 $W$,
    i64 $W$, i64 1, i64 %m, i64 %last, i64 %inverse, i64 %ahead, $T$ %scale)
  ret void
}
"""

SPLIT = """
define internal void @split(ptr %in, ptr %tw, ptr %lane_tw, ptr %block_tw, ptr %out,
    i64 %lanes, i64 %blocks, i64 %in_row, i64 %n, i64 %radices, i64 %inverse, i64 %far) nounwind {
  %size = call i64 @panel_size(i64 %n)
  %pitch = shl i64 %size, 1
  %a = call ptr @local(i64 %pitch, i64 %blocks)
  %b = getelementptr $T$, ptr %a, i64 %size
  %made = call ptr @start(ptr %in, i64 %in_row, i64 %lanes, i64 %blocks, ptr %a, ptr %b,
    i64 %pitch, ptr %tw, i64 %n, i64 %radices, i64 %inverse)
  call void @turn(ptr %made, ptr %out, ptr %lane_tw, ptr %block_tw, i64 %n, i64 %far, i64 %blocks,
    i64 %pitch)
  ret void
}

define void @tetrax_fft_split_$TYPE$(ptr %in, ptr %tw, ptr %lane_tw, ptr %block_tw, ptr %out,
    i64 %elements, i64 %lanes, i64 %in_row, i64 %n, i64 %radices, i64 %inverse, i64 %far)
    nounwind {
entry:
  $PARTS$
full:
  call void @split(ptr %in, ptr %tw, ptr %lane_tw, ptr %block_tw, ptr %out, i64 $W$,
    i64 %blocks, i64 %in_row, i64 %n, i64 %radices, i64 %inverse, i64 %far)
  br label %left
left:
  br i1 %odd, label %part, label %done
part:
  %in_rest = getelementptr $T$, ptr %in, i64 %done_scalars
  %size = call i64 @panel_size(i64 %n)
  %row_scalars = udiv i64 %size, $W$
  %table_at = mul i64 %row_scalars, %blocks
  %table = getelementptr $T$, ptr %block_tw, i64 %table_at
  %out_at = mul i64 %done_scalars, $W$
  %out_rest = getelementptr $T$, ptr %out, i64 %out_at
  call void @split(ptr %in_rest, ptr %tw, ptr %lane_tw, ptr %table, ptr %out_rest,
    i64 %rest, i64 1, i64 %in_row, i64 %n, i64 %radices, i64 %inverse, i64 %far)
  br label %done
done:
  ret void
}
"""

JOIN = """
define internal void @join(ptr %in, ptr %tw, ptr %ltw, ptr %out, i64 %lanes, i64 %blocks,
    i64 %out_row, i64 %n, i64 %radices, i64 %last, i64 %inverse, i64 %far, $T$ %scale) nounwind {
  %size = call i64 @panel_size(i64 %n)
  %pitch = shl i64 %size, 1
  %a = call ptr @local(i64 %pitch, i64 %blocks)
  %b = getelementptr $T$, ptr %a, i64 %size
  %made = call ptr @panels(ptr %in, i64 %far, ptr %a, ptr %b, i64 %pitch, i64 %blocks, ptr %tw,
    i64 %n, i64 1, i64 %radices)
  %same = icmp eq ptr %made, %in
  %made_pitch = select i1 %same, i64 %far, i64 %pitch
  %ahead = mul i64 %out_row, $AHEAD$
  call void @finish(ptr %made, i64 %made_pitch, ptr %a, ptr %b, i64 %pitch, ptr %ltw, ptr %out,
    i64 %out_row, i64 %lanes, i64 %blocks, i64 %n, i64 %last, i64 %inverse, i64 %ahead, $T$ %scale)
  ret void
}

define void @tetrax_fft_join_$TYPE$(ptr %in, ptr %tw, ptr %out, i64 %elements, i64 %lanes,
    i64 %out_row, i64 %n, i64 %radices, i64 %last, i64 %last_place, i64 %inverse, i64 %far,
    $T$ %scale) nounwind {
entry:
  %ltw = getelementptr $T$, ptr %tw, i64 %last_place
  $PARTS$
full:
  call void @join(ptr %in, ptr %tw, ptr %ltw, ptr %out, i64 $W$, i64 %blocks,
    i64 %out_row, i64 %n, i64 %radices, i64 %last, i64 %inverse, i64 %far, $T$ %scale)
  br label %left
left:
  br i1 %odd, label %part, label %done
part:
  %in_at = mul i64 %blocks, %far
  %in_rest = getelementptr $T$, ptr %in, i64 %in_at
  %out_rest = getelementptr $T$, ptr %out, i64 %done_scalars
  call void @join(ptr %in_rest, ptr %tw, ptr %ltw, ptr %out_rest, i64 %rest, i64 1,
    i64 %out_row, i64 %n, i64 %radices, i64 %last, i64 %inverse, i64 %far, $T$ %scale)
  br label %done
done:
  ret void
}
"""
