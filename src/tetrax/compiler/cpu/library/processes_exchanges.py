"""The LLVM text of single exchanges between processes; `processes.py` has what they stand on."""

from __future__ import annotations

MESSAGES = """
define internal i32 @noted(ptr %group) nounwind {
  %process = call ptr @pointer(ptr %group, i64 $PROCESS$)
  %code = load atomic i32, ptr %process acquire, align 4
  ret i32 %code
}

; requests that a message of so many bytes takes
define internal i64 @pieces(ptr %group, i64 %bytes) nounwind {
  %process = call ptr @pointer(ptr %group, i64 $PROCESS$)
  %limit = call i64 @field(ptr %process, i64 $LIMIT$)
  %before = sub i64 %limit, 1
  %sum = add i64 %bytes, %before
  %pieces = udiv i64 %sum, %limit
  %none = icmp eq i64 %pieces, 0
  %count = select i1 %none, i64 1, i64 %pieces
  ret i64 %count
}

; begin to send or receive (by %function, a field of the process's record) a message, in pieces
; that a call can count; the number of requests, with those that were there, or -1
define internal i64 @start(ptr %group, i64 %function, ptr %memory, i64 %bytes, i64 %peer,
    i32 %kind, ptr %requests, i64 %count) nounwind {
entry:
  %process = call ptr @pointer(ptr %group, i64 $PROCESS$)
  %call = call ptr @pointer(ptr %process, i64 %function)
  %type = call i64 @field(ptr %process, i64 $BYTE$)
  %limit = call i64 @field(ptr %process, i64 $LIMIT$)
  %communicator = call i64 @field(ptr %group, i64 $COMMUNICATOR$)
  %tag = zext i32 %kind to i64
  br label %piece
piece:
  %place = phi ptr [ %memory, %entry ], [ %following, %begun ]
  %left = phi i64 [ %bytes, %entry ], [ %rest, %begun ]
  %at = phi i64 [ %count, %entry ], [ %next, %begun ]
  %short = icmp slt i64 %left, %limit
  %now = select i1 %short, i64 %left, i64 %limit
  %request = getelementptr i64, ptr %requests, i64 %at
  %error = call i32 %call(ptr %place, i64 %now, i64 %type, i64 %peer, i64 %tag,
    i64 %communicator, ptr %request)
  %wrong = icmp ne i32 %error, 0
  br i1 %wrong, label %broken, label %begun
begun:
  %next = add i64 %at, 1
  %rest = sub i64 %left, %now
  %following = getelementptr i8, ptr %place, i64 %now
  %more = icmp sgt i64 %rest, 0
  br i1 %more, label %piece, label %leave
leave:
  ret i64 %next
broken:
  %reason = call i32 @broken(ptr %group)
  call i32 @fail(ptr %group, i32 %kind, i32 %reason, i32 %error)
  ret i64 -1
}

; send to one member and receive from one, and wait for both
define internal i32 @pair(ptr %group, ptr %send, i64 %to, ptr %recv, i64 %from, i64 %bytes,
    i32 %kind) nounwind {
entry:
  %pieces = call i64 @pieces(ptr %group, i64 %bytes)
  %most = mul i64 %pieces, 2
  %requests = alloca i64, i64 %most, align 8
  %receives = icmp sge i64 %from, 0
  br i1 %receives, label %receive, label %received
receive:
  %first = call i64 @start(ptr %group, i64 $IRECV$, ptr %recv, i64 %bytes, i64 %from, i32 %kind,
    ptr %requests, i64 0)
  br label %received
received:
  %some = phi i64 [ 0, %entry ], [ %first, %receive ]
  %good = icmp sge i64 %some, 0
  %sends = icmp sge i64 %to, 0
  %go = and i1 %good, %sends
  br i1 %go, label %send_it, label %sent
send_it:
  %second = call i64 @start(ptr %group, i64 $ISEND$, ptr %send, i64 %bytes, i64 %to, i32 %kind,
    ptr %requests, i64 %some)
  br label %sent
sent:
  %count = phi i64 [ %some, %received ], [ %second, %send_it ]
  %broken = icmp slt i64 %count, 0
  br i1 %broken, label %failed, label %wait
wait:
  %code = call i32 @wait(ptr %group, ptr %requests, i64 %count, i32 %kind)
  ret i32 %code
failed:
  %noted = call i32 @noted(ptr %group)
  ret i32 %noted
}
"""

BLOCKS = """
; every member sends a block to every other: the same one (%step 0) or one each (%step = %bytes)
define internal i32 @blocks(ptr %group, ptr %send, i64 %step, ptr %recv, i64 %bytes,
    i32 %kind) nounwind {
entry:
  %rank = call i64 @field(ptr %group, i64 $RANK$)
  %size = call i64 @field(ptr %group, i64 $SIZE$)
  %nothing = icmp eq i64 %bytes, 0
  br i1 %nothing, label %empty, label %begin
empty:
  ret i32 0
begin:
  %entered = call i32 @enter(ptr %group, i32 %kind)
  %refused = icmp ne i32 %entered, 0
  br i1 %refused, label %refuse, label %own
refuse:
  ret i32 %entered
own:
  %mine_offset = mul i64 %rank, %bytes
  %mine = getelementptr i8, ptr %recv, i64 %mine_offset
  %source_offset = mul i64 %rank, %step
  %source = getelementptr i8, ptr %send, i64 %source_offset
  %there = icmp eq ptr %mine, %source
  br i1 %there, label %room, label %copy
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %mine, ptr %source, i64 %bytes, i1 false)
  br label %room
room:
  %pieces = call i64 @pieces(ptr %group, i64 %bytes)
  %twice = mul i64 %pieces, 2
  %most = mul i64 %twice, %size
  %requests = alloca i64, i64 %most, align 8
  br label %receive
receive:
  %near = phi i64 [ 1, %room ], [ %nearer, %received ]
  %got = phi i64 [ 0, %room ], [ %more_got, %received ]
  %in = icmp slt i64 %near, %size
  br i1 %in, label %receive_it, label %sending
receive_it:
  %back = sub i64 %rank, %near
  %back_wrapped = add i64 %back, %size
  %from = urem i64 %back_wrapped, %size
  %into_offset = mul i64 %from, %bytes
  %into = getelementptr i8, ptr %recv, i64 %into_offset
  %more_got = call i64 @start(ptr %group, i64 $IRECV$, ptr %into, i64 %bytes, i64 %from,
    i32 %kind, ptr %requests, i64 %got)
  %bad_receive = icmp slt i64 %more_got, 0
  br i1 %bad_receive, label %failed, label %received
received:
  %nearer = add i64 %near, 1
  br label %receive
sending:
  br label %send_next
send_next:
  %far = phi i64 [ 1, %sending ], [ %farther, %sent ]
  %count = phi i64 [ %got, %sending ], [ %more_sent, %sent ]
  %out = icmp slt i64 %far, %size
  br i1 %out, label %send_it, label %wait
send_it:
  %ahead = add i64 %rank, %far
  %to = urem i64 %ahead, %size
  %out_offset = mul i64 %to, %step
  %block = getelementptr i8, ptr %send, i64 %out_offset
  %more_sent = call i64 @start(ptr %group, i64 $ISEND$, ptr %block, i64 %bytes, i64 %to,
    i32 %kind, ptr %requests, i64 %count)
  %bad_send = icmp slt i64 %more_sent, 0
  br i1 %bad_send, label %failed, label %sent
sent:
  %farther = add i64 %far, 1
  br label %send_next
wait:
  %code = call i32 @wait(ptr %group, ptr %requests, i64 %count, i32 %kind)
  %result = call i32 @finish(ptr %group, i32 %code)
  ret i32 %result
failed:
  %noted = call i32 @noted(ptr %group)
  ret i32 %noted
}

define i32 @tetrax_process_all_gather(ptr %group, ptr %send, ptr %recv, i64 %bytes) nounwind {
  %code = call i32 @blocks(ptr %group, ptr %send, i64 0, ptr %recv, i64 %bytes, i32 $ALL_GATHER$)
  ret i32 %code
}

define i32 @tetrax_process_all_to_all(ptr %group, ptr %send, ptr %recv, i64 %bytes) nounwind {
  %code = call i32 @blocks(ptr %group, ptr %send, i64 %bytes, ptr %recv, i64 %bytes,
    i32 $ALL_TO_ALL$)
  ret i32 %code
}
"""

ROUNDS = """
define i32 @tetrax_process_permute(ptr %group, ptr %send, i64 %to, ptr %recv, i64 %from,
    i64 %bytes) nounwind {
entry:
  %nothing = icmp eq i64 %bytes, 0
  br i1 %nothing, label %empty, label %begin
empty:
  ret i32 0
begin:
  %entered = call i32 @enter(ptr %group, i32 $PERMUTE$)
  %refused = icmp ne i32 %entered, 0
  br i1 %refused, label %refuse, label %target
refuse:
  ret i32 %entered
target:
  %rank = call i64 @field(ptr %group, i64 $RANK$)
  %self = icmp eq i64 %to, %rank
  br i1 %self, label %copy, label %exchange
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %recv, ptr %send, i64 %bytes, i1 false)
  br label %done
exchange:
  %code = call i32 @pair(ptr %group, ptr %send, i64 %to, ptr %recv, i64 %from, i64 %bytes,
    i32 $PERMUTE$)
  br label %done
done:
  %final = phi i32 [ 0, %copy ], [ %code, %exchange ]
  %result = call i32 @finish(ptr %group, i32 %final)
  ret i32 %result
}

; from the root along a binomial tree
define i32 @tetrax_process_broadcast(ptr %group, ptr %buffer, i64 %root, i64 %bytes) nounwind {
entry:
  %nothing = icmp eq i64 %bytes, 0
  br i1 %nothing, label %empty, label %begin
empty:
  ret i32 0
begin:
  %entered = call i32 @enter(ptr %group, i32 $BROADCAST$)
  %refused = icmp ne i32 %entered, 0
  br i1 %refused, label %refuse, label %place
refuse:
  ret i32 %entered
place:
  %rank = call i64 @field(ptr %group, i64 $RANK$)
  %size = call i64 @field(ptr %group, i64 $SIZE$)
  %difference = sub i64 %rank, %root
  %wrapped = add i64 %difference, %size
  %relative = urem i64 %wrapped, %size
  br label %up
up:
  %bit = phi i64 [ 1, %place ], [ %doubled, %higher ]
  %inside = icmp slt i64 %bit, %size
  br i1 %inside, label %mine, label %top
mine:
  %common = and i64 %relative, %bit
  %below = icmp ne i64 %common, 0
  br i1 %below, label %receive, label %higher
higher:
  %doubled = mul i64 %bit, 2
  br label %up
receive:
  %parent = sub i64 %rank, %bit
  %parent_wrapped = add i64 %parent, %size
  %from = urem i64 %parent_wrapped, %size
  %received = call i32 @pair(ptr %group, ptr %buffer, i64 -1, ptr %buffer, i64 %from, i64 %bytes,
    i32 $BROADCAST$)
  %lost = icmp ne i32 %received, 0
  br i1 %lost, label %failed, label %top
failed:
  ret i32 %received
top:
  %pieces = call i64 @pieces(ptr %group, i64 %bytes)
  %most = mul i64 %pieces, 64
  %requests = alloca i64, i64 %most, align 8
  br label %down
down:
  %above = phi i64 [ %bit, %top ], [ %half, %sent ]
  %count = phi i64 [ 0, %top ], [ %now, %sent ]
  %half = lshr i64 %above, 1
  %some = icmp ne i64 %half, 0
  br i1 %some, label %child, label %wait
child:
  %number = add i64 %relative, %half
  %exists = icmp slt i64 %number, %size
  br i1 %exists, label %send, label %sent
send:
  %ahead = add i64 %rank, %half
  %to = urem i64 %ahead, %size
  %more = call i64 @start(ptr %group, i64 $ISEND$, ptr %buffer, i64 %bytes, i64 %to,
    i32 $BROADCAST$, ptr %requests, i64 %count)
  %bad = icmp slt i64 %more, 0
  br i1 %bad, label %broken, label %sent
broken:
  %noted = call i32 @noted(ptr %group)
  ret i32 %noted
sent:
  %now = phi i64 [ %count, %child ], [ %more, %send ]
  br label %down
wait:
  %code = call i32 @wait(ptr %group, ptr %requests, i64 %count, i32 $BROADCAST$)
  %result = call i32 @finish(ptr %group, i32 %code)
  ret i32 %result
}

; in rounds: each hears from one twice as far away as in the round before
define i32 @tetrax_process_barrier(ptr %group) nounwind {
entry:
  %entered = call i32 @enter(ptr %group, i32 $BARRIER$)
  %refused = icmp ne i32 %entered, 0
  br i1 %refused, label %refuse, label %place
refuse:
  ret i32 %entered
place:
  %rank = call i64 @field(ptr %group, i64 $RANK$)
  %size = call i64 @field(ptr %group, i64 $SIZE$)
  br label %test
test:
  %far = phi i64 [ 1, %place ], [ %farther, %round ]
  %code = phi i32 [ 0, %place ], [ %now, %round ]
  %inside = icmp slt i64 %far, %size
  %good = icmp eq i32 %code, 0
  %go = and i1 %inside, %good
  br i1 %go, label %round, label %done
round:
  %ahead = add i64 %rank, %far
  %to = urem i64 %ahead, %size
  %back = sub i64 %rank, %far
  %back_wrapped = add i64 %back, %size
  %from = urem i64 %back_wrapped, %size
  %now = call i32 @pair(ptr %group, ptr null, i64 %to, ptr null, i64 %from, i64 0, i32 $BARRIER$)
  %farther = mul i64 %far, 2
  br label %test
done:
  %result = call i32 @finish(ptr %group, i32 %code)
  ret i32 %result
}
"""
