"""Kernels by what they compute: equal parts of a program (its layers, say) are built once.

Building, scheduling and printing a kernel costs milliseconds; a signature costs microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from tetrax.compiler.cpu.schedule import schedule
from tetrax.compiler.cpu.split_ranges import split_ranges
from tetrax.compiler.cpu.transpose_blocks import block_transpositions
from tetrax.compiler.nest import Nest, NotFusable
from tetrax.compiler.passes.cse import atom_key
from tetrax.ir.atoms import Atom, DropVar, Literal, Var
from tetrax.ir.kernel import Kernel
from tetrax.ir.program import Equation


class KernelCache:
    """What one compilation has built so far."""

    def __init__(self) -> None:
        # None stands for members that do not fit together.
        self._nests: dict[Hashable, tuple[Kernel, tuple[int, ...]] | None] = {}
        self._fits: dict[Hashable, bool] = {}
        self._emitted: dict[Hashable, Kernel] = {}
        # By identity; the kernels are kept, so that no identity is used twice.
        self._scheduled: dict[int, tuple[Kernel, Kernel]] = {}
        self._kinds: dict[Hashable, int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._kind_of: dict[Equation, int | None] = {}

    def kind(self, eqn: Equation) -> int | None:
        """A number for operation, parameters and result types; None if they cannot be compared."""
        if eqn not in self._kind_of:
            what = (
                eqn.primitive,
                tuple(eqn.params.items()),
                tuple(var.aval for var in eqn.outvars),
            )
            try:
                self._kind_of[eqn] = self._kinds.setdefault(what, len(self._kinds))
            except TypeError:
                self._kind_of[eqn] = None
        return self._kind_of[eqn]

    def number(self, key: Hashable) -> int:
        """A number that stands for a long key."""
        return self._numbers.setdefault(key, len(self._numbers))

    def nest(
        self,
        kind: Hashable,
        members: Sequence[Var],
        writes: Sequence[Var],
        signature: Signature,
        build: Callable[[], Nest],
    ) -> Nest:
        """The nest `build` makes, or an equal one made before; raises NotFusable as it does."""
        if signature.key is None:
            return build()
        positions = {var: i for i, var in enumerate(members)}
        key = (kind, signature.key, tuple(positions[var] for var in writes))
        if key not in self._nests:
            self._nests[key] = self._remembered(signature, build)
        found = self._nests[key]
        if found is None:
            raise NotFusable
        kernel, reads = found
        return Nest(kernel, tuple(signature.stored[i] for i in reads), tuple(writes))

    def fits(self, key: Hashable, find: Callable[[], bool]) -> bool:
        """Whether a variable fits into a group, as `find` says or has said of an equal case."""
        found = self._fits.get(key)
        if found is None:
            found = self._fits[key] = find()
        return found

    def _remembered(
        self, signature: Signature, build: Callable[[], Nest]
    ) -> tuple[Kernel, tuple[int, ...]] | None:
        try:
            made = build()
        except NotFusable:
            return None
        numbers = {var: i for i, var in enumerate(signature.stored)}
        return made.kernel, tuple(numbers[var] for var in made.reads)

    def emitted(self, eqn: Equation, build: Callable[[], Kernel]) -> Kernel:
        """The kernel of an operation that writes its own; it depends on types alone."""
        avals = tuple(atom.aval for atom in (*eqn.invars, *eqn.outvars))
        unread = tuple(isinstance(var, DropVar) for var in eqn.outvars)
        key = (eqn.primitive, tuple(eqn.params.items()), avals, unread)
        try:
            found = self._emitted.get(key)
        except TypeError:
            return build()
        if found is None:
            found = self._emitted[key] = build()
        return found

    def scheduled(self, kernel: Kernel) -> Kernel:
        """The kernel with its loops divided among threads where that pays."""
        found = self._scheduled.get(id(kernel))
        if found is None:
            found = self._scheduled[id(kernel)] = kernel, _prepared(kernel)
        return found[1]


@dataclass(frozen=True)
class Signature:
    """What some variables are, said without names: operations, parameters, types, and wiring.

    `stored` are the variables read from memory, in the order in which the key numbers them; a key
    of None means that a parameter cannot be compared.
    """

    key: Hashable | None
    stored: Sequence[Var]


class Signatures:
    """The signatures of a program's variables.

    That of several is put together of theirs, which are found once.
    """

    def __init__(
        self,
        definitions: Mapping[Var, Equation],
        is_stored: Callable[[Var], bool],
        cache: KernelCache,
    ) -> None:
        self._definitions, self._is_stored, self._cache = definitions, is_stored, cache
        self._own: dict[Var, Signature] = {}

    def of(self, var: Var) -> Signature:
        """The signature of one variable."""
        found = self._own.get(var)
        if found is None:
            kind = self._cache.kind
            single = _SingleSignature(var, self._definitions, self._is_stored, kind)
            key = None if single.key is None else self._cache.number(single.key)
            found = self._own[var] = Signature(key, single.stored)
        return found

    def together(self, members: Sequence[Var]) -> Signature:
        """The signature of variables of which later ones may read earlier ones."""
        places: dict[Var, Hashable] = {}
        stored: list[Var] = []
        parts: list[Hashable] = []
        for number, var in enumerate(members):
            own = self.of(var)
            if own.key is None:
                return Signature(None, stored)
            for read in own.stored:
                if read not in places:
                    places[read] = len(stored)
                    stored.append(read)
            parts.append((own.key, tuple([places[read] for read in own.stored])))
            places[var] = ("member", number)
        return Signature(tuple(parts), stored)


class _SingleSignature:
    """The signature of one variable being found."""

    def __init__(
        self,
        var: Var,
        definitions: Mapping[Var, Equation],
        is_stored: Callable[[Var], bool],
        kind: Callable[[Equation], int | None],
    ) -> None:
        self.stored: list[Var] = []
        self._definitions, self._is_stored, self._kind = definitions, is_stored, kind
        self._comparable = True
        self._numbers: dict[Var, Hashable] = {}
        self._parts: list[Hashable] = []
        self._define(var)
        self._parts.append(self._numbers[var])
        self.key: Hashable | None = tuple(self._parts) if self._comparable else None

    def _reference(self, atom: Atom) -> Hashable:
        if isinstance(atom, Literal):
            return atom_key(atom)
        if atom not in self._numbers:
            if self._is_stored(atom):
                self._numbers[atom] = ("stored", len(self.stored), atom.aval)
                self.stored.append(atom)
            else:
                self._define(atom)
        return self._numbers[atom]

    def _define(self, var: Var) -> None:
        eqn = self._definitions[var]
        operands = tuple([self._reference(atom) for atom in eqn.invars])
        kind = self._kind(eqn)
        self._comparable = self._comparable and kind is not None
        number = len(self._parts)
        self._parts.append((kind, operands))
        for i, out in enumerate(eqn.outvars):
            self._numbers.setdefault(out, (number, i))


def _prepared(kernel: Kernel) -> Kernel:
    """The kernel as it will be emitted."""
    kernel = split_ranges(kernel)
    kernel = block_transpositions(kernel)  # after cutting: what is left is plain copies
    return schedule(kernel)  # last: it gives every task its own blocks


__all__ = ["KernelCache", "Signature", "Signatures"]
