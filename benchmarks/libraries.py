"""The libraries that are timed: how each is loaded, given its inputs, called and waited for."""

from __future__ import annotations

import importlib
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
from benchmarks.row import Case

PEERS = ("jax", "torch", "numpy")
COMPILE_SECONDS = 90
"""How long `torch.compile` may take for one row before the eager function stands alone."""

Thunk = Callable[[], Any]


class TooSlow(Exception):
    """`torch.compile` did not end in its time."""


def load(name: str) -> ModuleType | None:
    """A library by name, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def load_all(peers: tuple[str, ...]) -> dict[str, ModuleType]:
    """Tetrax and those of the peers that are installed, in this order."""
    found = {name: load(name) for name in ("tetrax", *peers)}
    return {name: module for name, module in found.items() if module is not None}


def version(module: ModuleType) -> str:
    """The version of a library as it names it."""
    return str(getattr(module, "__version__", "unknown"))


@contextmanager
def precision(modules: Mapping[str, ModuleType], x64: bool) -> Iterator[None]:
    """Turn 64-bit types on or off in every library that asks for it, while the row runs."""
    switches = {"tetrax": "enable_x64", "jax": "jax_enable_x64"}
    used = [(modules[name].config, flag) for name, flag in switches.items() if name in modules]
    for config, flag in used:
        config.update(flag, x64)
    try:
        yield
    finally:
        for config, flag in used:
            config.update(flag, False)


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """A tree of dicts, lists and tuples with `function` applied to its leaves; None stays.

    Dicts come out sorted by key, as JAX has them.
    """
    if isinstance(tree, dict):
        return {name: tree_map(function, tree[name]) for name in sorted(tree)}
    if isinstance(tree, (list, tuple)):
        parts = [tree_map(function, part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return None if tree is None else function(tree)


# --------------------------------------------------------------------------- calls


def jitted(case: Case, library: Any) -> Thunk:
    """The program jitted, its inputs on the device, its result waited for."""
    donated = tuple(range(case.updates))
    function = library.jit(case.program(library), donate_argnums=donated)
    wait = library.block_until_ready
    # device_put may alias the NumPy arrays, which other libraries read later
    placed = [tree_map(lambda leaf: library.numpy.array(leaf), part) for part in case.inputs]
    if not donated:
        return lambda: wait(function(*placed))

    def step() -> Any:
        result = wait(function(*placed))
        placed[: case.updates] = result[: case.updates]
        return result

    return step


def in_numpy(case: Case, _library: Any) -> Thunk:
    """The NumPy function on the inputs as they are."""
    function = case.numpy
    assert function is not None
    if not case.updates:
        return lambda: function(*case.inputs)
    mine = [tree_map(np.copy, part) for part in case.inputs]
    return lambda: function(*mine)


def tensor(torch: Any, leaf: Any) -> Any:
    """A tensor with the contents of a NumPy array of any type, bfloat16 among them."""
    leaf = np.array(leaf)
    if leaf.dtype.name == "bfloat16":
        return torch.from_numpy(leaf.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(leaf)


def _tensors(case: Case, torch: Any) -> tuple[Any, ...]:
    made = tuple(tree_map(lambda leaf: tensor(torch, leaf), part) for part in case.inputs)
    return case.torch_inputs(torch, *made) if case.torch_inputs else made


def in_torch(case: Case, torch: Any) -> Thunk:
    """The PyTorch function, operation by operation."""
    assert case.torch is not None
    function, placed = case.torch(torch), _tensors(case, torch)
    return lambda: function(*placed)


def torch_compiled(case: Case, torch: Any) -> Thunk:
    """The PyTorch function through `torch.compile`, already compiled; raises where it cannot be."""
    assert case.torch is not None
    torch._dynamo.reset()
    function, placed = torch.compile(case.torch(torch)), _tensors(case, torch)
    with _alarm(COMPILE_SECONDS), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch about its own code
        function(*placed)
        function(*placed)
    return lambda: function(*placed)


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise TooSlow(f"torch.compile took longer than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


_CALLS: dict[str, Callable[[Case, Any], Thunk]] = {
    "tetrax": jitted,
    "jax": jitted,
    "torch": in_torch,
    "numpy": in_numpy,
}


def takes(case: Case, name: str) -> bool:
    """Whether the row is written for a library."""
    return {"numpy": case.numpy, "torch": case.torch}.get(name, case.program) is not None


def thunk(case: Case, name: str, module: Any) -> Thunk:
    """A function without arguments that computes the case in one library and waits for it."""
    return _CALLS[name](case, module)


# --------------------------------------------------------------------------- results


def as_arrays(result: Any) -> list[np.ndarray]:
    """The leaves of a library's result as NumPy arrays, bfloat16 as float32."""
    leaves: list[np.ndarray] = []

    def add(leaf: Any) -> None:
        if hasattr(leaf, "detach"):
            leaf = leaf.detach()
            leaf = (leaf.float() if str(leaf.dtype) == "torch.bfloat16" else leaf).numpy()
        array = np.asarray(leaf)
        leaves.append(array.astype(np.float32) if array.dtype.name == "bfloat16" else array)

    tree_map(add, result)
    return leaves
