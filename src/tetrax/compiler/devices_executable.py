"""A program that several devices run at once, each on its own data: one native call for all."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from tetrax import errors
from tetrax.compiler.cpu.library.registry import library_address
from tetrax.compiler.device_groups import DeviceAxes, Meetings
from tetrax.compiler.device_records import DeviceCode, DeviceRecords
from tetrax.compiler.executable import Executable, runs_host_function_of_device
from tetrax.compiler.pipeline import compile_device_program
from tetrax.ir.program import ClosedProgram
from tetrax.runtime.native_call import FAILED, Runner

_ALIGNMENT = 64


class _Launches:
    def __init__(self) -> None:
        self.lock = threading.Lock()


_launches = _Launches()
# In a forked child nobody launches, whoever did in the parent.
os.register_at_fork(after_in_child=_launches.__init__)


class DevicesExecutable(Executable):
    """The program of one device for each device of this process.

    Operands are those of the first device, then those of the second, and so on; results too.
    """

    def __init__(self, local: Executable, meetings: Meetings, positions: Sequence[int]) -> None:
        count, operands = len(positions), len(local.in_avals)
        stride = -(-local.arena_bytes // _ALIGNMENT) * _ALIGNMENT
        launch = library_address("tetrax_devices_launch")
        assert launch is not None
        super().__init__(
            launch,
            local.in_avals * count,
            local.out_avals * count,
            [],
            stride * count,
            [],
            keep=local.code,
            sources=[
                None if source is None else device * operands + source
                for device in range(count)
                for source in local.sources
            ],
        )
        self.local = local
        self._spread = any(map(meetings.is_spread, range(len(meetings.partitions))))
        self.constants = local.constants
        code = DeviceCode(
            local.address,
            local.context,
            operands,
            len(local.out_avals),
            len(local.constants),
            stride,
            serial=not meetings.sites and local.is_short,
        )
        self.records = DeviceRecords(code, meetings, positions)
        self.context = self.records.address
        # Exceptions of host functions, which several threads run.
        local.failures = []

    @property
    def is_short(self) -> bool:
        """Whether a call is done at once; who waits for other processes may have to wait long."""
        return not self._spread and super().is_short

    @property
    def nbytes(self) -> int:
        """Bytes of code, constants and records."""
        return super().nbytes + self.records.nbytes

    @property
    def held(self) -> Any:
        return self.local, self.records

    @cached_property
    def run(self) -> Runner:
        """Runs the program; raises what a device raised, or CollectiveError."""
        runner = self._runner(single=False)

        def run(*args: Any) -> Any:
            if runs_host_function_of_device():
                raise errors.CollectiveError(
                    "a host function that a program of several devices calls has called one "
                    "itself (pmap, shard_map, or jit of arrays on several devices), but the "
                    "devices are busy until it returns: compute that before or after, or on one "
                    "device"
                )
            # One launch at a time has the devices. Who waits for them must not hold up the host
            # functions of the launch, and nobody else may launch before a failure is read.
            with _launches.lock:
                outs = runner(*args)
                if outs is FAILED:
                    raise self._exception()
            return outs

        return run

    def _exception(self) -> BaseException:
        failures = self.local.failures
        assert failures is not None
        if failures:
            first = failures[0]
            failures.clear()
            return first
        failure = self.records.failure()
        assert failure is not None, "devices reported a failure without a reason"
        return failure


def compile_for_devices(
    closed: ClosedProgram,
    axes: DeviceAxes,
    positions: Sequence[int],
    donated: Sequence[int] = (),
    processes: Sequence[int] = (),
) -> DevicesExecutable:
    """Machine code of the program of one device, for the devices at `positions` of the mesh.

    `processes` says in which process each device of the mesh is.
    """
    meetings = Meetings(axes, tuple(processes))
    local = compile_device_program(closed, meetings, donated)
    return DevicesExecutable(local, meetings, positions)
