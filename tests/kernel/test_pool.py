"""The worker pool by itself: every task runs once, whatever the callers, sizes and processes."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import threading
import time
import warnings

import pytest

import numpy as np
from tetrax.compiler.cpu.library import library_address
from tetrax.compiler.cpu.library.pool import POOL_SYMBOLS, System, pool_text
from tetrax.compiler.cpu.library.pool_control import running_workers
from tetrax.config import config
from tetrax.runtime import llvm

# Counts in context[task] how often the task ran, `calls` times over.
_CALLER = """
define void @count_task(ptr %context, i64 %task) {
  %place = getelementptr i64, ptr %context, i64 %task
  %old = load i64, ptr %place
  %new = add i64 %old, 1
  store i64 %new, ptr %place
  ret void
}
define void @nested_task(ptr %context, i64 %task) {
  %pool = load ptr, ptr %context
  %offset = mul i64 %task, 4
  %begin = getelementptr i64, ptr %context, i64 1
  %start = getelementptr i64, ptr %begin, i64 %offset
  call void %pool(ptr @count_task, ptr %start, i64 4, i64 1000000)
  ret void
}
define void @call_often(ptr %pool, ptr %function, ptr %context, i64 %calls, i64 %tasks, i64 %work) {
entry:
  br label %turn
turn:
  %i = phi i64 [ 0, %entry ], [ %next, %turn ]
  call void %pool(ptr %function, ptr %context, i64 %tasks, i64 %work)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %calls
  br i1 %more, label %turn, label %leave
leave:
  ret void
}
"""
_linker = llvm.Linker()
_caller = _linker.link(
    "pool-caller",
    llvm.compile_object(_CALLER),
    ["call_often", "count_task", "nested_task"],
    {},
)
_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
_call_often = ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _POINTER, _NUMBER, _NUMBER, _NUMBER)(
    _caller["call_often"]
)
LARGE = 10**6  # work that always pays for waking the workers


@pytest.fixture
def four_threads():
    before = config.num_threads
    config.update("num_threads", 4)
    yield
    config.update("num_threads", before)


def counts(tasks, calls=1, work=LARGE, pool=None):
    """How often each task ran."""
    runs = np.zeros(tasks, np.int64)
    address = pool or library_address("tetrax_parallel")
    _call_often(address, _caller["count_task"], runs.ctypes.data, calls, tasks, work)
    return runs.tolist()


@pytest.mark.parametrize("tasks", [1, 2, 3, 16, 300])
def test_every_task_runs_once(four_threads, tasks):
    assert counts(tasks) == [1] * tasks
    assert counts(tasks, calls=50) == [50] * tasks
    if tasks > 1:
        assert running_workers() == 3


def test_small_work_leaves_sleeping_workers_alone(four_threads):
    config.update("num_threads", 3)  # stops them all
    assert counts(4, work=1000) == [1] * 4
    assert running_workers() == 0
    assert counts(4, calls=200, work=1000) == [200] * 4  # together they are worth it
    assert running_workers() == 2


def test_the_number_of_threads_may_change_at_any_time():
    before = config.num_threads
    try:
        for threads in (1, 7, 2):
            config.update("num_threads", threads)
            assert counts(9) == [1] * 9
            assert running_workers() == threads - 1
    finally:
        config.update("num_threads", before)


def test_calls_inside_tasks_run_inline(four_threads):
    runs = np.zeros(1 + 4 * 8, np.int64)
    runs[0] = pool = library_address("tetrax_parallel")
    _call_often(pool, _caller["nested_task"], runs.ctypes.data, 1, 8, LARGE)
    assert runs[1:].tolist() == [1] * 32


def stress(pool, resize):
    """Whether several threads that call at once, while the pool's size changes, get every task."""
    wrong = []

    def caller(seed):
        choose = random.Random(seed)
        for _ in range(60):
            calls, tasks = choose.choice([1, 3, 50]), choose.randint(1, 40)
            if counts(tasks, calls, choose.choice([0, 1000, LARGE]), pool) != [calls] * tasks:
                wrong.append(tasks)
            time.sleep(choose.choice([0, 0, 1e-4, 1e-3]))

    threads = [threading.Thread(target=caller, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for size in (1, 2, 5, 3):
        time.sleep(0.005)
        resize(size)
    for thread in threads:
        thread.join()
    return not wrong


def test_threads_of_python_may_call_at_once(four_threads):
    assert stress(
        library_address("tetrax_parallel"), lambda size: config.update("num_threads", size)
    )


def test_waiting_with_a_condition_variable():
    here = System.here(llvm.host_architecture())
    if not here.linux:
        pytest.skip("the other tests use it already")
    source = pool_text(System(here.architecture, True, None))
    linker = llvm.Linker()
    routines = linker.link("pool-condition", llvm.compile_object(source), list(POOL_SYMBOLS), {})
    resize = ctypes.CFUNCTYPE(None, _NUMBER)(routines["tetrax_pool_resize"])
    ctypes.CFUNCTYPE(None)(routines["tetrax_pool_setup"])()
    resize(4)
    pool = routines["tetrax_parallel"]
    assert counts(16, 50, pool=pool) == [50] * 16
    time.sleep(0.01)  # the workers sleep now
    assert counts(16, pool=pool) == [1] * 16
    assert stress(pool, resize)
    resize(1)


def test_a_forked_child_has_workers_of_its_own(four_threads):
    assert counts(8) == [1] * 8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there are threads, as there must be
        child = os.fork()
    if child == 0:
        first = running_workers() == 0
        right = counts(8) == [1] * 8 and running_workers() == 3
        os._exit(0 if first and right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert counts(8) == [1] * 8


def test_the_process_ends_while_workers_sleep_or_spin():
    script = """
import time
import tetrax.compiler.cpu
from tetrax.compiler.cpu.library import library_address
from tetrax.compiler.cpu.library.pool_control import running_workers
import ctypes
task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(lambda context, task: None)
pool = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)
pool(library_address("tetrax_parallel"))(task, None, 4, 10**9)
time.sleep({pause})
print(running_workers())
"""
    environment = {**os.environ, "TETRAX_NUM_THREADS": "3"}
    for pause in (0, 0.01):
        run = subprocess.run(
            [sys.executable, "-c", script.format(pause=pause)],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert (run.returncode, run.stdout, run.stderr) == (0, "2\n", "")


def test_local_memory_is_kept_and_grows():
    memory = ctypes.CFUNCTYPE(_POINTER, _NUMBER)(library_address("tetrax_local_memory"))
    first = memory(1000)
    assert first % 64 == 0
    assert memory(100_000) == first
    ctypes.memset(first, 1, 100_000)
    large = memory(5_000_000)
    ctypes.memset(large, 1, 5_000_000)
    assert large % 64 == 0
    others = []
    thread = threading.Thread(target=lambda: others.append(memory(64)))
    thread.start()
    thread.join()
    assert others != [large]
