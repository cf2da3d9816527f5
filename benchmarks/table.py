"""Results as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.harness import Outcome


def duration(seconds: float | None) -> str:
    """Seconds in the unit that suits them."""
    if seconds is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def header(peers: Sequence[str]) -> str:
    """The line above the rows."""
    columns = "".join(f"{peer:>12} {'ratio':>7}" for peer in peers)
    return f"{'row':32}{'tetrax':>12}{'limit':>12}{columns}"


def line(outcome: Outcome, peers: Sequence[str]) -> str:
    """A row's line, and one more for every error."""
    columns = ""
    for peer in peers:
        ratio = outcome.ratio(peer)
        shown = "-" if ratio is None else f"{ratio:.3f}"
        columns += f"{duration(outcome.times.get(peer)):>12} {shown:>7}"
    mine, limit = duration(outcome.times.get("tetrax")), duration(outcome.limit)
    problems = [f"    {name}: {text}" for name, text in outcome.errors.items()]
    return "\n".join([f"{outcome.row:32}{mine:>12}{limit:>12}{columns}", *problems])
