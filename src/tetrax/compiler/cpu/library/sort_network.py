"""Sorting networks on vectors, as LLVM text: what a sort does with a few elements.

A bitonic network compares elements whose numbers differ in one bit. Where that bit counts vectors,
two vectors are compared; where it counts lanes, a vector is compared with a shuffle of itself.
Batcher, "Sorting networks and their applications", 1968.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Element = tuple[str, ...]
"""The registers that hold one vector of elements: keys, and positions where they go along."""


@dataclass
class Lines:
    """Instructions under construction, with names that nobody else uses."""

    lines: list[str] = field(default_factory=list)
    count: int = 0

    def emit(self, instruction: str) -> str:
        self.count += 1
        name = f"%n{self.count}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def effect(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}")


@dataclass(frozen=True)
class Lanes:
    """Vectors of `width` keys of type `key`, each with a position (i64) if `paired`."""

    key: str
    width: int
    paired: bool

    @property
    def vector(self) -> str:
        return f"<{self.width} x {self.key}>"

    @property
    def mask(self) -> str:
        return f"<{self.width} x i1>"

    def less(self, out: Lines, a: Element, b: Element) -> str:
        """Which lanes of `a` come before those of `b`."""
        below = out.emit(f"icmp slt {self.vector} {a[0]}, {b[0]}")
        if not self.paired:
            return below
        same = out.emit(f"icmp eq {self.vector} {a[0]}, {b[0]}")
        first = out.emit(f"icmp slt {self.vector} {a[1]}, {b[1]}")
        tie = out.emit(f"and {self.mask} {same}, {first}")
        return out.emit(f"or {self.mask} {below}, {tie}")

    def ordered(self, out: Lines, a: Element, b: Element) -> tuple[Element, Element]:
        """The smaller and the larger of each lane."""
        if not self.paired:
            suffix = f"v{self.width}{self.key}"
            texts = [
                out.emit(
                    f"call {self.vector} @llvm.{name}.{suffix}"
                    f"({self.vector} {a[0]}, {self.vector} {b[0]})"
                )
                for name in ("smin", "smax")
            ]
            return (texts[0],), (texts[1],)
        mask = self.less(out, a, b)
        choose: Callable[[str, str], str] = lambda x, y: out.emit(
            f"select {self.mask} {mask}, {self.vector} {x}, {self.vector} {y}"
        )
        low = tuple(choose(x, y) for x, y in zip(a, b, strict=True))
        return low, tuple(choose(y, x) for x, y in zip(a, b, strict=True))

    def shuffled(self, out: Lines, a: Element, b: Element, lanes: Sequence[int]) -> Element:
        """Lanes of two vectors, those of the second counted on."""
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return tuple(
            out.emit(
                f"shufflevector {self.vector} {x}, {self.vector} {y}, <{self.width} x i32> <{mask}>"
            )
            for x, y in zip(a, b, strict=True)
        )


def sorted_vectors(out: Lines, lanes: Lanes, vectors: list[Element]) -> list[Element]:
    """All elements of some vectors (a power of two of them) in ascending order."""
    vectors = list(vectors)
    total = len(vectors) * lanes.width
    block = 2
    while block <= total:
        distance = block // 2
        while distance:
            _compare(out, lanes, vectors, block, distance)
            distance //= 2
        block *= 2
    return vectors


def _compare(out: Lines, lanes: Lanes, vectors: list[Element], block: int, distance: int) -> None:
    """One step: elements `distance` apart, ascending where the bit `block` of their number is 0."""
    width = lanes.width
    if distance >= width:
        for at in range(len(vectors)):
            other = at ^ (distance // width)
            if at < other:
                low, high = lanes.ordered(out, vectors[at], vectors[other])
                ascending = at * width & block == 0
                vectors[at], vectors[other] = (low, high) if ascending else (high, low)
        return
    for at, vector in enumerate(vectors):
        partner = lanes.shuffled(out, vector, vector, [lane ^ distance for lane in range(width)])
        low, high = lanes.ordered(out, vector, partner)
        takes_low = [
            (lane & distance == 0) == ((at * width + lane) & block == 0) for lane in range(width)
        ]
        chosen = [lane if low else width + lane for lane, low in enumerate(takes_low)]
        vectors[at] = lanes.shuffled(out, low, high, chosen)
