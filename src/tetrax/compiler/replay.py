"""A program repeated by the NumPy references of its operations, one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from tetrax.compiler.references import QUIET, only_integers
from tetrax.ir.program import ClosedProgram, Equation, Literal, Var
from tetrax.ir.types import ShapedArray, storage_dtype
from tetrax.runtime.array import Array, as_value

_MOST_NUMBERS = 256


def replay(closed: ClosedProgram, is_number: Sequence[bool]) -> Callable[..., Array]:
    """A function from the program's operands, Arrays or numbers (`is_number`), to its result."""
    program = closed.program
    out = program.outvars[0]
    if out in program.invars and not is_number[program.invars.index(out)]:
        place = program.invars.index(out)
        return lambda *operands: operands[place]
    planner = _Planner(closed, is_number)
    for eqn in program.eqns:
        planner.add(eqn)
    place = planner.whole(out)
    return _function(planner, place, out.aval)


class _Step:
    """One operation: `function(*values at places)`."""

    def __init__(
        self,
        function: Callable[..., Any],
        places: Sequence[int],
        avals: Sequence[ShapedArray],
        many: bool,
    ) -> None:
        self.function = function
        self.places = tuple(places)
        self.storages = [storage_dtype(aval.dtype) for aval in avals]
        self.many = many


class _Planner:
    """Gives every variable a place in a list of values, and collects the steps that fill it.

    The list begins with the operands and the constants. A number enters it in the dtype that it is
    first converted to. What is only broadcast stays small (`narrow`) as long as it is used by
    arithmetic beside a value of full shape, since NumPy's arithmetic broadcasts by itself.
    """

    def __init__(self, closed: ClosedProgram, is_number: Sequence[bool]) -> None:
        program = closed.program
        self.places: dict[Any, int] = {}
        self.narrow: set[Any] = set()
        self.dtypes: list[Any] = [
            storage_dtype(var.aval.dtype) if number else None
            for var, number in zip(program.invars, is_number, strict=True)
        ]
        self.numbers = {v for v, n in zip(program.invars, is_number, strict=True) if n}
        self.initial: list[Any] = [None] * len(program.invars)
        for place, var in enumerate(program.invars):
            self.places[var] = place
        for var, constant in zip(program.constvars, closed.consts, strict=True):
            self._constant(var, constant)
        atoms = [atom for eqn in program.eqns for atom in eqn.invars] + list(program.outvars)
        for atom in atoms:
            if isinstance(atom, Literal):
                self._constant(atom, atom.val)
        self.uses = Counter([atom for atom in atoms if isinstance(atom, Var)])
        self.steps: list[_Step] = []
        # No step can raise a floating-point warning.
        self.silent = True
        self.count = len(self.initial)

    def _constant(self, atom: Any, value: Any) -> None:
        dtype = storage_dtype(atom.aval.dtype)
        self.places[atom] = len(self.initial)
        self.initial.append(np.asarray(getattr(value, "_npy", value), dtype))

    def whole(self, atom: Any) -> int:
        """The place of a value in its full shape."""
        if atom in self.narrow:
            self.narrow.discard(atom)
            self._step(partial(_spread, shape=atom.aval.shape), [self.places[atom]], [atom])
        return self.places[atom]

    def add(self, eqn: Equation) -> None:
        """Append what an equation does."""
        source = eqn.invars[0] if eqn.invars else None
        if _is_plain_broadcast(eqn):
            self.places[eqn.outvars[0]] = self.places[source]
            self.narrow.add(eqn.outvars[0])
        elif (
            eqn.primitive.name == "convert_element_type"
            and source in self.numbers
            and self.uses[source] == 1
        ):
            place = self.places[eqn.outvars[0]] = self.places[source]
            self.dtypes[place] = storage_dtype(eqn.outvars[0].aval.dtype)
        else:
            avals = [atom.aval for atom in eqn.invars]
            function = eqn.primitive.prepared(avals, eqn.params)
            broadcasts = isinstance(function, np.ufunc) and any(
                atom not in self.narrow and atom.aval.shape == eqn.outvars[0].aval.shape
                for atom in eqn.invars
            )
            self.silent = self.silent and _is_silent(eqn, function)
            place_of = self.places.__getitem__ if broadcasts else self.whole
            places = [place_of(atom) for atom in eqn.invars]
            self._step(function, places, eqn.outvars, eqn.primitive.multiple_results)

    def _step(
        self,
        function: Callable[..., Any],
        places: Sequence[int],
        outs: Sequence[Any],
        many: bool = False,
    ) -> None:
        self.steps.append(_Step(function, places, [atom.aval for atom in outs], many))
        for atom in outs:
            self.places[atom] = self.count
            self.count += 1


def _is_silent(eqn: Equation, function: Any) -> bool:
    if eqn.primitive.name in _MOVES:
        return True
    avals = [atom.aval for atom in (*eqn.invars, *eqn.outvars)]
    return isinstance(function, np.ufunc) and only_integers(*avals)


_MOVES = frozenset(
    (
        *("broadcast_in_dim", "concatenate", "expand_dims", "pad", "reshape", "rev", "select_n"),
        *("slice", "squeeze", "transpose"),
    )
)


def _is_plain_broadcast(eqn: Equation) -> bool:
    """Whether an equation broadcasts the way NumPy's arithmetic does."""
    if eqn.primitive.name != "broadcast_in_dim":
        return False
    before, after = eqn.invars[0].aval.ndim, eqn.outvars[0].aval.ndim
    return tuple(eqn.params["broadcast_dimensions"]) == tuple(range(after - before, after))


def _spread(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    out = np.empty(shape, x.dtype)
    out[...] = x
    return out


# -- reading operands ------------------------------------------------------------------------------


def _number_reader(dtype: np.dtype) -> Callable[[Any], np.ndarray]:
    """A function from Python numbers to 0-d arrays of `dtype`."""
    known: dict[Any, np.ndarray] = {}

    def read(number: Any) -> np.ndarray:
        # 0.0 and -0.0 are equal keys.
        key = number or str(number)
        found = known.get(key)
        if found is None:
            as_value(number)  # raises where the number fits no dtype
            with np.errstate(all="ignore"):
                found = np.asarray(number).astype(dtype)
            if len(known) >= _MOST_NUMBERS:
                known.clear()
            known[key] = found
        return found

    return read


# -- running ---------------------------------------------------------------------------------------


def _function(planner: _Planner, place: int, aval: ShapedArray) -> Callable[..., Array]:
    """The steps as one function of Python, written out: a loop over them would cost as much again.

    Value `n` of the list is the variable `v<n>`; functions and dtypes come in by name.
    """
    change, restore, ignore = QUIET
    names: dict[str, Any] = {"change": change, "restore": restore, "ignore": ignore}
    names |= {"Array": Array, "new": object.__new__, "aval": aval}
    names |= {"ndarray": np.ndarray, "asarray": np.asarray}
    lines, body = [], []
    operands = [f"x{i}" for i in range(len(planner.dtypes))]
    for i, (operand, dtype) in enumerate(zip(operands, planner.dtypes, strict=True)):
        names[f"read{i}"] = None if dtype is None else _number_reader(dtype)
        lines.append(f"v{i} = {operand}._npy" if dtype is None else f"v{i} = read{i}({operand})")
    for i, constant in enumerate(planner.initial):
        if constant is not None:
            names[f"v{i}"] = constant
    at = len(planner.initial)
    for number, step in enumerate(planner.steps):
        names[f"f{number}"] = step.function
        outs = [f"v{at + i}" for i in range(len(step.storages))]
        arguments = ", ".join([f"v{i}" for i in step.places])
        body.append(f"{', '.join(outs)}{',' * step.many} = f{number}({arguments})")
        for out, storage in zip(outs, step.storages, strict=True):
            names[f"d{out}"] = storage
            body.append(f"if type({out}) is not ndarray: {out} = asarray({out})")
            body.append(f"if {out}.dtype is not d{out}: {out} = {out}.astype(d{out}, copy=False)")
        at += len(outs)
    if body and not planner.silent:
        lines += ["token = change(ignore)", "try:", *["    " + line for line in body]]
        lines += ["finally: restore(token)"]
    else:
        lines += body
    lines += ["out = new(Array)", f"out._npy = v{place}", "out._owner = None"]
    lines += ["out.aval = aval", "return out"]
    text = f"def plan({', '.join(operands)}):\n" + "".join(f"    {line}\n" for line in lines)
    exec(text, names)
    return names["plan"]
