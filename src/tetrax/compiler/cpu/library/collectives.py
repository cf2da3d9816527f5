"""What the devices of a group do at a meeting: reductions and exchanges of memory, as LLVM text.

All take the device's record, the partition into groups, the site, an operand and a result, and
answer 0, or 1 where the meeting does not come about:

    tetrax_all_reduce_OP_TYPE(..., i64 count)      the result is the reduction of all operands
    tetrax_all_reduce_many_OP_TYPE(..., i64 entries)   the same of several arrays at one meeting:
                                                   the operand is a table of three words for each
    tetrax_reduce_scatter_OP_TYPE(..., i64 count)  that of block `rank` of all operands
    tetrax_all_gather(..., i64 bytes)              block m is the operand of member m
    tetrax_all_to_all(..., i64 bytes)              block m is block `rank` of the operand of m
    tetrax_permute(..., i64 bytes, ptr sources)    the operand of member sources[rank] (i64), or
                                                   zeros where that is negative

The devices meet before, when all operands are there, and after, when nobody reads them any more.
Those that reduce are in `collective_reductions.py`.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.device_layout import DEVICE_WORDS, GROUP_WORDS, STATIONS
from tetrax.compiler.cpu.target import Target

EXCHANGE_SYMBOLS = ("tetrax_all_gather", "tetrax_all_to_all", "tetrax_permute")


def exchange_module(target: Target) -> str:
    """The LLVM module of the exchanges."""
    return filled(_EXCHANGES)


def filled(text: str) -> str:
    """A module of these functions and of what collectives share."""
    text = _HEAD + text
    words = {**DEVICE_WORDS, **GROUP_WORDS, "STATIONS": STATIONS}
    for name, value in words.items():
        text = text.replace(f"${name}$", str(value))
    return text


_HEAD = """
declare i32 @tetrax_devices_arrive(ptr, i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal ptr @group(ptr %device, i64 %partition) alwaysinline nounwind {
  %double = mul i64 %partition, 2
  %at = add i64 %double, $MEMBERSHIPS$
  %place = getelementptr ptr, ptr %device, i64 %at
  %group = load ptr, ptr %place, align 8
  ret ptr %group
}

define internal i64 @rank(ptr %device, i64 %partition) alwaysinline nounwind {
  %double = mul i64 %partition, 2
  %at = add i64 %double, 1
  %word = add i64 %at, $MEMBERSHIPS$
  %place = getelementptr i64, ptr %device, i64 %word
  %rank = load i64, ptr %place, align 8
  ret i64 %rank
}

define internal i64 @size(ptr %group) alwaysinline nounwind {
  %place = getelementptr i64, ptr %group, i64 $SIZE$
  %size = load i64, ptr %place, align 8
  ret i64 %size
}

define internal ptr @operand(ptr %group, i64 %member) alwaysinline nounwind {
  %words = mul i64 %member, 4
  %at = add i64 %words, $MEMBERS$
  %word = add i64 %at, 1
  %place = getelementptr ptr, ptr %group, i64 %word
  %operand = load ptr, ptr %place, align 8
  ret ptr %operand
}

; the list of the addresses of operands, one in every four words
define internal ptr @operands(ptr %group) alwaysinline nounwind {
  %at = add i64 $MEMBERS$, 1
  %place = getelementptr ptr, ptr %group, i64 %at
  ret ptr %place
}

define internal ptr @listed(ptr %list, i64 %step, i64 %index) alwaysinline nounwind {
  %at = mul i64 %step, %index
  %place = getelementptr ptr, ptr %list, i64 %at
  %operand = load ptr, ptr %place, align 8
  ret ptr %operand
}

define internal ptr @result(ptr %group, i64 %member) alwaysinline nounwind {
  %words = mul i64 %member, 4
  %at = add i64 %words, $MEMBERS$
  %word = add i64 %at, 2
  %place = getelementptr ptr, ptr %group, i64 %word
  %result = load ptr, ptr %place, align 8
  ret ptr %result
}

; the addresses in a column of an entry of the tables that members came with
define internal void @column(ptr %group, i64 %size, i64 %entry, i64 %column, ptr %list) nounwind {
entry_block:
  %words = mul i64 %entry, 3
  %at = add i64 %words, %column
  br label %turn
turn:
  %member = phi i64 [ 0, %entry_block ], [ %next, %turn ]
  %table = call ptr @operand(ptr %group, i64 %member)
  %place = getelementptr ptr, ptr %table, i64 %at
  %address = load ptr, ptr %place, align 8
  %target = getelementptr ptr, ptr %list, i64 %member
  store ptr %address, ptr %target, align 8
  %next = add i64 %member, 1
  %more = icmp slt i64 %next, %size
  br i1 %more, label %turn, label %leave
leave:
  ret void
}

; whether all results begin at a cache line
define internal i1 @aligned(ptr %results, i64 %size) nounwind {
entry:
  br label %turn
turn:
  %member = phi i64 [ 0, %entry ], [ %next, %turn ]
  %bits = phi i64 [ 0, %entry ], [ %both, %turn ]
  %result = call ptr @listed(ptr %results, i64 1, i64 %member)
  %address = ptrtoint ptr %result to i64
  %both = or i64 %bits, %address
  %next = add i64 %member, 1
  %more = icmp slt i64 %next, %size
  br i1 %more, label %turn, label %leave
leave:
  %low = and i64 %both, 63
  %answer = icmp eq i64 %low, 0
  ret i1 %answer
}

; say where this device's operand and result are, and wait for the others
define internal i32 @enter(ptr %device, i64 %partition, i64 %site, ptr %send, ptr %recv) nounwind {
  %group = call ptr @group(ptr %device, i64 %partition)
  %rank = call i64 @rank(ptr %device, i64 %partition)
  %words = mul i64 %rank, 4
  %at = add i64 %words, $MEMBERS$
  %first = add i64 %at, 1
  %second = add i64 %at, 2
  %send_place = getelementptr ptr, ptr %group, i64 %first
  %recv_place = getelementptr ptr, ptr %group, i64 %second
  store ptr %send, ptr %send_place, align 8
  store ptr %recv, ptr %recv_place, align 8
  %status = call i32 @pass(ptr %device, i64 %partition, i64 %site, i64 0)
  ret i32 %status
}

define internal i32 @leave(ptr %device, i64 %partition, i64 %site) nounwind {
  %status = call i32 @pass(ptr %device, i64 %partition, i64 %site, i64 3)
  ret i32 %status
}

; one of the up to four times that devices wait for each other at a site
define internal i32 @pass(ptr %device, i64 %partition, i64 %site, i64 %station) nounwind {
  %first = mul i64 %site, $STATIONS$
  %number = add i64 %first, %station
  %status = call i32 @tetrax_devices_arrive(ptr %device, i64 %partition, i64 %number)
  ret i32 %status
}
"""

_EXCHANGES = """
define i32 @tetrax_all_gather(ptr %device, i64 %partition, i64 %site,
    ptr %send, ptr %recv, i64 %bytes) nounwind {
entry:
  %status = call i32 @enter(ptr %device, i64 %partition, i64 %site, ptr %send, ptr %recv)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %refuse, label %go
refuse:
  ret i32 1
go:
  %group = call ptr @group(ptr %device, i64 %partition)
  %size = call i64 @size(ptr %group)
  br label %turn
turn:
  %member = phi i64 [ 0, %go ], [ %next, %turn ]
  %source = call ptr @operand(ptr %group, i64 %member)
  %offset = mul i64 %member, %bytes
  %target = getelementptr i8, ptr %recv, i64 %offset
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  %next = add i64 %member, 1
  %more = icmp slt i64 %next, %size
  br i1 %more, label %turn, label %done
done:
  %after = call i32 @leave(ptr %device, i64 %partition, i64 %site)
  ret i32 %after
}

define i32 @tetrax_all_to_all(ptr %device, i64 %partition, i64 %site,
    ptr %send, ptr %recv, i64 %bytes) nounwind {
entry:
  %status = call i32 @enter(ptr %device, i64 %partition, i64 %site, ptr %send, ptr %recv)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %refuse, label %go
refuse:
  ret i32 1
go:
  %group = call ptr @group(ptr %device, i64 %partition)
  %rank = call i64 @rank(ptr %device, i64 %partition)
  %size = call i64 @size(ptr %group)
  %own = mul i64 %rank, %bytes
  br label %turn
turn:
  %member = phi i64 [ 0, %go ], [ %next, %turn ]
  %operand = call ptr @operand(ptr %group, i64 %member)
  %source = getelementptr i8, ptr %operand, i64 %own
  %offset = mul i64 %member, %bytes
  %target = getelementptr i8, ptr %recv, i64 %offset
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  %next = add i64 %member, 1
  %more = icmp slt i64 %next, %size
  br i1 %more, label %turn, label %done
done:
  %after = call i32 @leave(ptr %device, i64 %partition, i64 %site)
  ret i32 %after
}

define i32 @tetrax_permute(ptr %device, i64 %partition, i64 %site,
    ptr %send, ptr %recv, i64 %bytes, ptr %sources) nounwind {
entry:
  %status = call i32 @enter(ptr %device, i64 %partition, i64 %site, ptr %send, ptr %recv)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %refuse, label %go
refuse:
  ret i32 1
go:
  %group = call ptr @group(ptr %device, i64 %partition)
  %rank = call i64 @rank(ptr %device, i64 %partition)
  %place = getelementptr i64, ptr %sources, i64 %rank
  %source = load i64, ptr %place, align 8
  %none = icmp slt i64 %source, 0
  br i1 %none, label %clear, label %copy
clear:
  call void @llvm.memset.p0.i64(ptr %recv, i8 0, i64 %bytes, i1 false)
  br label %done
copy:
  %operand = call ptr @operand(ptr %group, i64 %source)
  call void @llvm.memcpy.p0.p0.i64(ptr %recv, ptr %operand, i64 %bytes, i1 false)
  br label %done
done:
  %after = call i32 @leave(ptr %device, i64 %partition, i64 %site)
  ret i32 %after
}
"""
