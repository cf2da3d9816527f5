"""What a row is: one small program, written once for every library with JAX's API, and its peers.

A row's builder takes sizes and gives a `Case`; the same builder makes the full row and the tiny one
of the tests. Rows import no library but NumPy: programs are given the library they are to use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A program at one size, its inputs, and the same computation as users of other libraries
    write it.

    Args:
        program: given `tetrax` or `jax`, the function that is jitted and timed.
        inputs: trees of NumPy arrays, one per argument.
        numpy: the same function of the same inputs in NumPy.
        torch: given `torch`, the same function of tensors.
        torch_inputs: given `torch` and the tensors, the tensors in the layout a PyTorch user keeps
            (before the clock starts).
        flops, bytes: the arithmetic and the memory traffic that no implementation can avoid.
        tolerance: largest difference of results, relative to the largest element.
        compare: what of a result is compared, where not all of it.
        unchecked: why results of this row cannot be compared.
        x64: the row needs 64-bit types.
        updates: how many leading inputs the leading outputs replace, donated, call after call.
        torch_compile: whether `torch.compile` can be expected to take the function.
        plain: (part, function): the part of the work that a function does as a plain Python
            program would; timed once, and no peer.
    """

    program: Callable[[Any], Function]
    inputs: tuple[Any, ...]
    numpy: Function | None = None
    torch: Callable[[Any], Function] | None = None
    torch_inputs: Callable[..., tuple[Any, ...]] | None = None
    flops: float = 0.0
    bytes: float = 0.0
    tolerance: float = 1e-4
    compare: Function | None = None
    unchecked: str = ""
    x64: bool = False
    updates: int = 0
    torch_compile: bool = True
    plain: tuple[float, Function] | None = None


@dataclass(frozen=True)
class Row:
    """A named case: `make(**full)` is what is timed, `make(**tiny)` what the tests run."""

    name: str
    family: str
    make: Callable[..., Case]
    full: Mapping[str, Any] = field(default_factory=dict)
    tiny: Mapping[str, Any] = field(default_factory=dict)

    def case(self, *, tiny: bool = False) -> Case:
        """The case at its full or its tiny size."""
        return self.make(**(self.tiny if tiny else self.full))
