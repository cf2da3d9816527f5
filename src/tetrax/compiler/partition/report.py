"""What partitioning a program has cost: the collectives, their bytes, and why they are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tetrax.compiler.costs import nbytes
from tetrax.ir.types import ShapedArray


@dataclass(frozen=True)
class Move:
    """One collective: `bytes` is what a device has before it (after it for all_gather)."""

    kind: str
    names: tuple[Any, ...]
    devices: int
    nbytes: int
    aval: ShapedArray
    reason: str
    line: str = ""
    times: int = 1

    @property
    def sent(self) -> int:
        """Bytes that a device sends, with the best algorithm known, over all times."""
        others = self.devices - 1
        share = {
            "all_reduce": 2 * self.nbytes * others // self.devices,
            "permute": self.nbytes,
        }.get(self.kind, self.nbytes * others // self.devices)
        return share * self.times

    def __str__(self) -> str:
        names = ", ".join(map(str, self.names))
        often = f" x {self.times}" if self.times != 1 else ""
        where = f" at {self.line}" if self.line else ""
        return (
            f"{self.kind}({names}) of {self.aval.str_short()}{often}: {_size(self.sent)} sent per "
            f"device; {self.reason}{where}"
        )


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} bytes"


@dataclass
class Report:
    """The collectives of a partitioned program, in order."""

    devices: int = 1
    moves: list[Move] = field(default_factory=list)
    # How often what is partitioned now runs, and the line it comes from.
    times: int = 1
    line: str = ""

    def add(
        self,
        kind: str,
        names: Sequence[Any],
        devices: int,
        aval: ShapedArray,
        reason: str,
        line: str | None = None,
    ) -> None:
        if devices > 1:
            line = self.line if line is None else line
            move = Move(kind, tuple(names), devices, nbytes(aval), aval, reason, line, self.times)
            self.moves.append(move)

    def count(self, kind: str) -> int:
        """How many collectives of a kind there are."""
        return sum(move.kind == kind for move in self.moves)

    @property
    def sent(self) -> int:
        """Bytes that a device sends in all."""
        return sum(move.sent for move in self.moves)

    def __str__(self) -> str:
        if not self.moves:
            return f"{self.devices} devices, no collectives"
        lines = [str(move) for move in self.moves]
        total = f"{self.devices} devices, {len(lines)} collectives, {_size(self.sent)} sent each"
        return "\n".join([total, *(f"  {line}" for line in lines)])
