"""The records of devices and their groups: where things are in them, in 64-bit words.

`compiler/device_records.py` makes them, `devices.py` and `collectives.py` use them natively.
"""

from __future__ import annotations

LAUNCH_WORDS = {
    "LOCK": 0,
    "FAILED": 1,
    "DEVICES": 16,
    "BLOCKED": 17,
    "FINISHED": 18,
    "DEVICE_A": 19,
    "SITE_A": 20,
    "DEVICE_B": 21,
    "SITE_B": 22,
    "ENTRY": 23,
    "CONTEXT": 24,
    "INPUTS": 25,
    "OUTPUTS": 26,
    "CONSTANTS": 27,
    "STRIDE": 28,
    "PATIENCE": 29,
    "HOLD": 30,
    "SERIAL": 34,
    "STATUS": 35,
    "PARTICIPANTS": 36,
    "GROUPS": 31,
    "GROUP_LIST": 32,
    "DEVICE_LIST": 33,
    "END": 40,
}
"""Where things are in a launch record, in 64-bit words."""

DEVICE_WORDS = {
    "STATE": 0,
    "LAUNCH": 8,
    "INDEX": 9,
    "SITE": 10,
    "TABLE": 11,
    "ARENA": 12,
    "SHADOW": 13,
    "RING": 14,
    "AWAITED": 15,
    "COORDINATES": 16,
    "MEMBERSHIPS": 32,
}
"""The same in the record of a device; memberships are pairs of a group and a rank."""

RING_WORDS = {"HEAD": 0, "COMPLETED": 8, "CLOSED": 16, "DOZING": 17, "REQUESTS": 24}
REQUESTS = 64
"""The same in the ring of requests of a shadow, and how many of eight words it holds."""

STATIONS = 4
"""How often devices may wait for each other in one collective; what a site's number counts by."""

GROUP_WORDS = {
    "ARRIVED": 0,
    "SIZE": 1,
    "AT": 2,
    # Where the group has members in several processes:
    "PROCESSES": 3,
    "PROCESS_COUNT": 4,
    "OWN_PROCESS": 5,
    "STAGE": 6,
    "RANKS": 7,
    "PLACES": 8,
    "MEMBERS": 16,
}
"""The same in the record of a group; a member has four words: device, operand, result, unused."""

FAILED_DEVICE, MISMATCH, MISSING, NO_THREADS, PROCESS = 1, 2, 3, 4, 5
"""Why a launch fails: a device did, two came to different sites of a group, or all wait."""

WORDS = {**LAUNCH_WORDS, **DEVICE_WORDS, **GROUP_WORDS, **RING_WORDS}
REASONS = {
    "FAILED_DEVICE": FAILED_DEVICE,
    "MISMATCH": MISMATCH,
    "MISSING": MISSING,
    "NO_THREADS": NO_THREADS,
    "PROCESS": PROCESS,
}

ACCESS = """
define internal ptr @word(ptr %record, i64 %index) alwaysinline nounwind {
  %place = getelementptr i64, ptr %record, i64 %index
  ret ptr %place
}

define internal i64 @get(ptr %record, i64 %index) alwaysinline nounwind {
  %place = getelementptr i64, ptr %record, i64 %index
  %value = load i64, ptr %place, align 8
  ret i64 %value
}

define internal ptr @get_ptr(ptr %record, i64 %index) alwaysinline nounwind {
  %place = getelementptr i64, ptr %record, i64 %index
  %value = load ptr, ptr %place, align 8
  ret ptr %value
}

define internal void @set(ptr %record, i64 %index, i64 %value) alwaysinline nounwind {
  %place = getelementptr i64, ptr %record, i64 %index
  store i64 %value, ptr %place, align 8
  ret void
}

define internal ptr @device(ptr %launch, i64 %index) alwaysinline nounwind {
  %list = call ptr @get_ptr(ptr %launch, i64 $DEVICE_LIST$)
  %device = call ptr @get_ptr(ptr %list, i64 %index)
  ret ptr %device
}
"""
"""Functions that read and write words of records."""
