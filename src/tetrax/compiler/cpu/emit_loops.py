"""Machine loops: a counted loop and a conditional loop over carried values, built around
callbacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tetrax.compiler.cpu.emitter import AliasClass, Emitter, Scope

Carried = Sequence[tuple[str, str]]
"""(LLVM type, initial value) of each carried value."""


def _phis(
    names: Sequence[str], carried: Carried, before: str, latch: str, last: Sequence[str]
) -> list[str]:
    return [
        f"  {name} = phi {kind} [ {initial}, %{before} ], [ {following}, %{latch} ]"
        for name, (kind, initial), following in zip(names, carried, last, strict=True)
    ]


def counted_loop(
    emitter: Emitter,
    start: str,
    stop: str,
    step: int,
    carried: Carried,
    body: Callable[[str, list[str]], list[str]],
    stores: frozenset[AliasClass] = frozenset(),
) -> list[str]:
    """Run `body(index, carried values)` for start, start + step … below stop; gives the final
    carried values.

    The loop tests at its end; where the bounds are not constants a test before it skips it.
    """
    known = _is_number(start) and _is_number(stop)
    if known and int(start) >= int(stop):
        return [initial for _, initial in carried]
    if known and int(start) + step >= int(stop):
        return _single_turn(emitter, start, [initial for _, initial in carried], body, stores)
    label, leave = emitter.fresh("loop"), emitter.fresh("done")
    counter = f"%{emitter.fresh('i')}"
    names = [f"%{emitter.fresh('c')}" for _ in carried]
    outer = emitter.scopes
    scope = Scope("loop", label, certain=known, stores=stores)
    emitter.scopes = [*outer, scope]
    emitter.written(stores)
    last = body(counter, names)
    following = emitter.emit(f"add nsw i64 {counter}, {step}")
    again = emitter.emit(f"icmp slt i64 {following}, {stop}")
    emitter.effect(f"br i1 {again}, label %{label}, label %{leave}")
    emitter.written(stores)
    emitter.scopes = outer
    parent, before, latch = outer[-1], outer[-1].label, scope.label
    if known:
        parent.lines.append(f"  br label %{label}")
    else:
        emitter.effect(
            f"br i1 {emitter.emit(f'icmp slt i64 {start}, {stop}')}, label %{label}, label %{leave}"
        )
    parent.lines.append(f"{label}:")
    parent.lines += _phis([counter], [("i64", start)], before, latch, [following])
    parent.lines += _phis(names, carried, before, latch, last)
    parent.lines += scope.lines
    emitter.start_block(leave)
    if known:
        return last
    finals = [f"%{emitter.fresh('f')}" for _ in carried]
    parent.lines += _phis(finals, carried, before, latch, last)
    return finals


def _single_turn(
    emitter: Emitter,
    start: str,
    texts: list[str],
    body: Callable[[str, list[str]], list[str]],
    stores: frozenset[AliasClass],
) -> list[str]:
    """The body once, in a scope of its own so that its variables stay apart from what surrounds
    it.
    """
    outer = emitter.scopes
    label, leave = emitter.fresh("once"), emitter.fresh("done")
    scope = Scope("loop", label, certain=True, stores=stores)
    emitter.scopes = [*outer, scope]
    last = body(start, texts)
    emitter.effect(f"br label %{leave}")
    emitter.scopes = outer
    outer[-1].lines += [f"  br label %{label}", f"{label}:", *scope.lines]
    emitter.start_block(leave)
    return last


def conditional_loop(
    emitter: Emitter,
    carried: Carried,
    condition: Callable[[list[str]], str],
    body: Callable[[list[str]], list[str]],
    stores: frozenset[AliasClass] = frozenset(),
) -> list[str]:
    """Run `body(carried values)` while `condition(carried values)`; gives the final carried
    values.
    """
    header, inside, leave = (emitter.fresh(name) for name in ("while", "do", "done"))
    names = [f"%{emitter.fresh('c')}" for _ in carried]
    outer = emitter.scopes
    scope = Scope("loop", header, certain=False, stores=stores)
    emitter.scopes = [*outer, scope]
    emitter.written(stores)
    test = condition(names)
    emitter.effect(f"br i1 {test}, label %{inside}, label %{leave}")
    emitter.start_block(inside)
    last = body(names)
    emitter.effect(f"br label %{header}")
    emitter.written(stores)
    emitter.scopes = outer
    parent = outer[-1]
    parent.lines.append(f"  br label %{header}")
    parent.lines.append(f"{header}:")
    parent.lines += _phis(names, carried, parent.label, scope.label, last)
    parent.lines += scope.lines
    emitter.start_block(leave)
    return names


def branch(
    emitter: Emitter, test: str, then: Callable[[], None], orelse: Callable[[], None] | None = None
) -> None:
    """Run one of two pieces of code."""
    leave = emitter.fresh("join")
    outer = emitter.scopes
    sides = []
    for side in (then, orelse):
        if side is None:
            sides.append((leave, []))
            continue
        scope = Scope("branch", emitter.fresh("side"), certain=False)
        label = scope.label
        emitter.scopes = [*outer, scope]
        side()
        emitter.effect(f"br label %{leave}")
        emitter.scopes = outer
        sides.append((label, [f"{label}:", *scope.lines]))
    emitter.effect(f"br i1 {test}, label %{sides[0][0]}, label %{sides[1][0]}")
    for _, lines in sides:
        outer[-1].lines += lines
    emitter.start_block(leave)


def rare_value(emitter: Emitter, test: str, kind: str, usual: str, rare: Callable[[], str]) -> str:
    """`usual`, or where the test holds the value that `rare()` computes."""
    leave, label = emitter.fresh("join"), emitter.fresh("rare")
    outer = emitter.scopes
    scope = Scope("branch", label, certain=False)
    emitter.scopes = [*outer, scope]
    text = rare()
    emitter.effect(f"br label %{leave}")
    emitter.scopes = outer
    parent, before = outer[-1], outer[-1].label
    emitter.effect(f"br i1 {test}, label %{label}, label %{leave}, !prof !0")
    parent.lines += [f"{label}:", *scope.lines]
    emitter.start_block(leave)
    return emitter.emit(f"phi {kind} [ {usual}, %{before} ], [ {text}, %{scope.label} ]")


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()
