"""What reverse mode stores: the residuals of a function, with where each comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tetrax import tree
from tetrax.higher_order.inspect import shaped
from tetrax.ir.control import Inline
from tetrax.ir.program import Equation, Literal, Program
from tetrax.ir.types import ShapedArray
from tetrax.tracing.staging import stage
from tetrax.transforms.flat import argument_path, flatten_function
from tetrax.transforms.partial import linearize


def saved_residuals(
    f: Callable[..., Any], *args: Any, **kwargs: Any
) -> list[tuple[ShapedArray, str]]:
    """(type, origin) of every value that `vjp(f, *args)` keeps for its backward pass.

    >>> [origin for _, origin in saved_residuals(lambda x: x * x, 2.0)]
    ['from the argument x']
    """
    leaves, in_tree = tree.flatten((args, kwargs))
    flat = flatten_function(f, in_tree)

    def run(*values: Any) -> tuple[list[Any], None]:
        _, linear, _, _ = linearize(flat, values)
        return list(linear.consts), None

    program = stage(run, [shaped(x) for x in leaves])[0].program
    paths = [argument_path(f, path) for path, _ in tree.leaves_with_path((args, kwargs))]
    names = dict(zip(program.invars, paths, strict=True))
    found, seen = [], set()
    for atom in program.outvars:
        if isinstance(atom, Literal) or atom in seen:
            continue
        seen.add(atom)
        if atom in names:
            found.append((atom.aval, f"from the argument {names[atom]}"))
        elif atom in program.constvars:
            found.append((atom.aval, "from a constant"))
        else:
            found.append((atom.aval, _origin(program, atom)))
    return found


def _origin(program: Program, var: Any) -> str:
    """Which equation makes `var`, looking into calls."""
    eqn = next(e for e in program.eqns if var in e.outvars)
    structure = eqn.primitive.structure
    if structure is not None:
        described = structure([a.aval for a in eqn.invars], **eqn.params)
        inner = described.program.program if isinstance(described, Inline) else None
        if inner is not None:
            atom = inner.outvars[eqn.outvars.index(var)]
            if any(atom in e.outvars for e in inner.eqns):
                return _origin(inner, atom)
    return _describe(eqn)


def _describe(eqn: Equation) -> str:
    line = eqn.source_line()
    where = f" from {line}" if line is not None else ""
    if eqn.primitive.name == "name":
        return f"named {eqn.params['name']!r}{where}"
    return f"output of {eqn.primitive.name}{where}"


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print what `saved_residuals` finds, a line a value."""
    for aval, origin in saved_residuals(f, *args, **kwargs):
        print(f"{aval.str_short(short_dtypes=True)} {origin}")
