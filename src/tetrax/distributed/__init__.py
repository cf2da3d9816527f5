"""Programs of several processes, started by `mpiexec -n 4 python program.py`.

Each process runs the same program and calls `initialize` first; from then on the devices of all are
known in each. Data travels by MPI.

When a process ends before the others, whoever waits for it raises `errors.ProcessError`, which says
which process that was, how it ended and what the others were waiting in. Launchers kill what is
left soon after; errors are written before. A good end of all processes is waited for at the end of
each; a program in which one has failed never ends with the code 0.
"""

from __future__ import annotations

from collections.abc import Sequence

# The exchanges are library routines: this makes them known to the engine.
import tetrax.compiler.cpu.library.registry  # noqa: F401
from tetrax.runtime import devices, mpi, process_exit, processes

__all__ = ["initialize", "is_initialized", "shutdown"]

_ONCE = "distributed.initialize should only be called once."
_initialized = False
_shutdown_seconds = 300.0


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:
    """Make the processes of this program, and their devices, known to each other.

    To be called once, before anything else, by every process that `mpiexec` has started. The
    numbers of processes and of this one are the launcher's; those given must agree with them. No
    address is needed, since MPI knows how to reach the others.

    Args:
        coordinator_address: accepted for JAX's sake.
        num_processes: how many processes there are.
        process_id: which of them this one is.
        local_device_ids: accepted for JAX's sake; every device of a process is its own.
        cluster_detection_method: "mpi4py" to use MPI in any case, "deactivate" to ignore the
            launcher; then `num_processes` is 1.
        initialization_timeout: seconds to wait for the other processes.
        heartbeat_timeout_seconds: accepted for JAX's sake: the end of a process is seen at once.
        shutdown_timeout_seconds: seconds that the end of a program waits for the others' ends.
        coordinator_bind_address, slice_index, partition_index: accepted for JAX's sake.

    Raises:
        RuntimeError: if called twice, or after devices have been used.
        ValueError: where there is no launcher, or it says something else.
        ImportError: without mpi4py.
    """
    global _initialized, _shutdown_seconds
    if _initialized:
        raise RuntimeError(_ONCE)
    _check_numbers(num_processes, process_id)
    devices.check_unused()
    count = devices.configured_count()
    if cluster_detection_method == "mpi4py" or (
        cluster_detection_method != "deactivate" and mpi.launched()
    ):
        world = processes.begin(count, initialization_timeout)
        _check_agreement(world, num_processes, process_id)
    elif num_processes == 1:
        world = processes.begin_alone(count)
    elif num_processes is None:
        raise ValueError(
            "coordinator_address should be defined: nothing says that this is one of several "
            "processes. Start them with `mpiexec -n 4 python program.py`, or say num_processes=1."
        )
    else:
        raise ValueError(
            f"There should be {num_processes} processes, but no launcher of MPI programs has "
            f"started this one. Start all with `mpiexec -n {num_processes} python program.py`."
        )
    devices.set_processes(world.rank, [member.devices for member in world.members])
    process_exit.prepare(world, shutdown_timeout_seconds)
    _shutdown_seconds = shutdown_timeout_seconds
    _initialized = True


def is_initialized() -> bool:
    """Whether `initialize` has been called, and `shutdown` not since.

    >>> is_initialized()
    False
    """
    return _initialized


def shutdown() -> None:
    """Leave the other processes; waits until all do. Without effect before `initialize`.

    It is called at the end of a program by itself.
    """
    global _initialized
    if _initialized:
        _initialized = False
        process_exit.leave(_shutdown_seconds)


def _check_numbers(num_processes: int | None, process_id: int | None) -> None:
    if num_processes is not None and not isinstance(num_processes, int):
        raise TypeError(
            f"num_processes must be a positive int. Got num_processes={num_processes} of type "
            f"{type(num_processes)}."
        )
    if process_id is not None and not isinstance(process_id, int):
        raise TypeError(
            f"process_id must be a nonnegative int. Got process_id={process_id} of type "
            f"{type(process_id)}."
        )
    if process_id is not None and not 0 <= process_id < (num_processes or process_id + 1):
        raise ValueError(
            "process_id and num_processes must be nonnegative, with process_id < num_processes. "
            f"Got process_id={process_id}, num_processes={num_processes}."
        )


def _check_agreement(
    world: processes.World, num_processes: int | None, process_id: int | None
) -> None:
    """Raise ValueError where the program and the launcher disagree."""
    for given, found, name in (
        (num_processes, world.size, "num_processes"),
        (process_id, world.rank, "process_id"),
    ):
        if given is not None and given != found:
            raise ValueError(
                f"{name}={given}, but the launcher has started {world.size} processes, of which "
                f"this is number {world.rank}. Leave {name} out, or make the two agree."
            )
