"""What compiled code and Python share about the processes of a program: layouts and numbers.

A process has one record, and each group of processes that exchange data has one (offsets in bytes).
The processes of one host share a board: a header and a slot for each rank, in which each writes
what the others must know of it. `compiler/cpu/library/processes.py` reads and writes the same.
"""

from __future__ import annotations

__all__ = [
    "ALL_GATHER",
    "ALL_TO_ALL",
    "BARRIER",
    "BOARD",
    "BROADCAST",
    "BROKEN",
    "BYTE",
    "CHECK_SIGNALS",
    "COMMUNICATOR",
    "CRASHED",
    "ENSURE",
    "ENTRIES",
    "ENTRIES_AT",
    "ENTRY",
    "FAILED_GROUP",
    "FAILED_KIND",
    "FETCH",
    "FORKED",
    "GONE",
    "GROUP_BYTES",
    "HEADER_BYTES",
    "HELD",
    "INTERRUPTED",
    "IRECV",
    "ISEND",
    "KEY",
    "LEFT",
    "LIMIT",
    "MAIN",
    "MPI_ERROR",
    "MUTEX",
    "MUTEX_BYTES",
    "NOTED",
    "OVERFLOW",
    "OWN_SLOT",
    "PATIENCE",
    "PERMUTE",
    "PROCESS",
    "PROCESS_BYTES",
    "RAISED",
    "RANK",
    "RANKS",
    "RELEASE",
    "RUNNING",
    "SHUT_DOWN",
    "SIZE",
    "SLOTS",
    "SLOT_BYTES",
    "SPINS",
    "STARTED",
    "TEST",
    "TEXT",
    "TEXT_BYTES",
    "TEXT_LENGTH",
    "TIMED_OUT",
    "WAITING",
    "kind_names",
]

# ------------------------------------------------------------------ the record of a process
# At 0 stands the failure (i32) that ended all exchanges: 1 + a rank, or one of:
TIMED_OUT, SHUT_DOWN, BROKEN, FORKED, INTERRUPTED = -1, -2, -3, -4, -5
FAILED_KIND = 4
"""i32: the exchange that met the failure first."""
MPI_ERROR = 8
"""i32: MPI's error code where the failure is BROKEN."""
FAILED_GROUP = 16
"""The record of the group whose exchange failed."""
BOARD, OWN_SLOT = 24, 32
SPINS = 40
"""i32: polls before the first sleep of a wait."""
PATIENCE = 48
"""Nanoseconds a wait may take; 0: any."""
ISEND, IRECV, TEST = 56, 64, 72
"""Addresses of MPI's functions."""
BYTE, LIMIT = 80, 88
"""The handle of MPI_BYTE; the most bytes of one message."""
ENSURE, RELEASE, CHECK_SIGNALS, FETCH = 96, 104, 112, 120
"""Addresses of Python's functions that let a signal (Ctrl-C) end a wait, or null."""
RAISED = 128
"""The exception that has ended it: type, value, traceback."""
MAIN = 152
"""The thread that handles signals. Others never ask for Python's lock: who has it may wait for
them."""
PROCESS_BYTES = 160

# ------------------------------------------------------------------ the record of a group
COMMUNICATOR, RANK, SIZE, PROCESS = 0, 8, 16, 24
ENTRY, KEY, STARTED = 32, 40, 48
"""Where this process says how many exchanges of the group it has made; the group's number on the
board (i32); how many it has begun."""
SLOTS, RANKS = 56, 64
"""For each member: its slot on the board, or null where that is another host's; its rank (i32)."""
GROUP_BYTES = 72

# ------------------------------------------------------------------ the board
# At 0 stands 1 + the rank of the first process that failed, or 0.
HEADER_BYTES, SLOT_BYTES = 64, 1024
RUNNING, LEFT, CRASHED, GONE = 0, 1, 2, 3
"""States, at 0 of a slot: at work; at its end, makes no more exchanges; ended by an exception (its
text is in the slot); has ended without a word."""
WAITING, OVERFLOW, NOTED, HELD, TEXT_LENGTH, TEXT = 4, 8, 12, 16, 20, 24
"""The exchange that the process waits in; whether it has more groups than entries; whether its
program has been told of a failure; whether it holds its mutex; a text, and its length."""
TEXT_BYTES = 232
MUTEX, MUTEX_BYTES = 256, 64
"""A robust mutex that the process holds as long as it lives: the system says when it is gone."""
ENTRIES_AT, ENTRIES = 320, 88
"""Pairs of i32: the key of a group, and how many of its exchanges the process has made."""

# ------------------------------------------------------------------ exchanges
ALL_GATHER, ALL_TO_ALL, PERMUTE, BROADCAST, BARRIER = 1, 2, 3, 4, 5

kind_names = {
    0: "no exchange",
    ALL_GATHER: "all_gather",
    ALL_TO_ALL: "all_to_all",
    PERMUTE: "permute",
    BROADCAST: "broadcast",
    BARRIER: "barrier",
}
