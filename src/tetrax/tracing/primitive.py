"""`Primitive`: an operation and the vocabulary of its rules.

    shape(*avals, **params)                  types of the results; raises ShapeError on misuse
    varying(avals, outs, params)             the same, with the axes along which devices differ
    reference(*arrays, **params)             the value, by NumPy/SciPy, for eager calls and tests
    prepared(avals, params)                  the same as a function of the arrays, made per types
    jvp(primals, tangents, **params)         (result, tangent of the result)
    transpose(cotangent, *operands, **params) cotangents of the linear operands
    batch(operands, dims, **params)          (result, its batch dimension)
    kernel(operands, outs, **params)         results as functions from index to scalar expression
    emit(builder, operands, outs, **params)  a loop nest with stores, where `kernel` cannot say it
    structure(**params)                      the programs it holds, for the compiler
    factors(avals, outs, params)             which axes of operands and results are the same, so
                                             that devices can each compute a part
    local_params(params, avals, outs)        the parameters of such a part
    positioned(operands, outs, place, params) such parts where they depend on where they begin
    expansion(avals, params)                 a program of other operations that the compiler for
                                             CPUs puts in its place, or None
    stablehlo(ctx, operands, outs, **params) text for XLA

Rules are methods; a rule assigned to an instance (`sin_p.jvp = rule`) takes precedence, which is
how libraries register rules for operations of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tetrax import errors
from tetrax.ir.layout import Factors, Place
from tetrax.ir.program import NO_EFFECTS, Effects
from tetrax.ir.types import ShapedArray
from tetrax.tracing.trace import state


def rule(method: Any) -> Any:
    """Marks a rule: operations override it with the operands and parameters that they have."""
    return method


def as_programs_say(
    primitive: Primitive, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], params: dict
) -> list[ShapedArray]:
    """`Primitive.varying` of operations that hold programs, whose types say it already."""
    return list(outs)


class Primitive:
    """Base of all operations; see the module's text for the rules."""

    multiple_results = False
    # For the fuser. What computing one element costs: 0 for moving data, 1 for an addition,
    # 8 for an exponential. `folds`: an element is the outcome of a loop. `updates`: the operand
    # that `emit` may overwrite with its (only) result.
    cost = 0
    folds = False
    updates: int | None = None
    # Eager calls go through the compiler although there is a reference (which would be slow).
    compile_eagerly = False
    # Set on operations that may be dropped, merged and moved freely.
    is_pure = True

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation under the current trace."""
        return state.trace.process_primitive(self, args, params)

    @rule
    def rebind(self, args: Sequence[Any], params: dict) -> Any:
        """Apply a recorded equation; operations whose `bind` takes functions override it."""
        return state.trace.process_primitive(self, args, params)

    # -- rules ---------------------------------------------------------------------------------

    @rule
    def shape(self, *avals: ShapedArray, **params: Any) -> Any:
        raise self.missing("shape")

    @rule
    def effects(self, *avals: ShapedArray, **params: Any) -> Effects:
        return NO_EFFECTS

    reference: Any = None

    @rule
    def prepared(self, avals: Sequence[ShapedArray], params: dict) -> Callable[..., Any]:
        """The reference for operands of the given types, as a function of the arrays alone.

        Overridden where the reference spends its time on deciding what to do.
        """
        return partial(self.reference, **params) if params else self.reference

    @rule
    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        raise self.missing("jvp")

    @rule
    def transpose(self, cotangent: Any, *operands: Any, **params: Any) -> Sequence[Any]:
        raise self.missing("transpose")

    @rule
    def batch(self, operands: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        raise self.missing("batch")

    @rule
    def batch_axis(
        self, axis: Any, operands: Sequence[Any], dims: Sequence[Any], /, **params: Any
    ) -> Any:
        """`batch` for operations that must know the mapped axis (collectives, programs)."""
        return self.batch(operands, dims, **params)

    @rule
    def uses_axis(self, name: Any, params: dict) -> bool:
        """Whether the operation works across the mapped axis `name` even on unmapped operands."""
        return False

    @rule
    def runs_compiled(self, avals: Sequence[ShapedArray], params: dict) -> bool:
        """Whether an eager call on such operands is better compiled than run by `reference`."""
        return self.compile_eagerly

    @rule
    def rereads(self, avals: Sequence[ShapedArray], params: dict) -> bool:
        """Whether `kernel` reads an element of an operand more than once."""
        return False

    @rule
    def piecewise(self, avals: Sequence[ShapedArray], params: dict) -> bool:
        """Whether `kernel` chooses by the index so that a loop can be cut for it, but no fold."""
        return False

    kernel: Any = None
    emit: Any = None

    @rule
    def stores(self, avals: Sequence[ShapedArray], params: dict) -> bool:
        """Whether to use `emit` although there is a `kernel`: sizes where fusion does not pay."""
        return False

    @rule
    def factors(
        self, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], params: dict
    ) -> Factors | None:
        """How the operation can be cut over devices; None where it needs all of its operands."""
        return None

    @rule
    def local_params(
        self, params: dict, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray]
    ) -> dict:
        """The parameters for operands and results that are parts, of these types."""
        return params

    @rule
    def positioned(
        self, operands: Sequence[Any], outs: Sequence[ShapedArray], place: Place, params: dict
    ) -> Sequence[Any]:
        """Parts of results where `Factors.positional` are cut: of the types `outs`, at `place`."""
        raise self.missing("positioned")

    structure: Any = None
    expansion: Any = None
    # Splits the operation into known and unknown parts; only operations that hold programs do.
    partial: Any = None
    # Removes unused operands and results; None keeps or drops the equation whole.
    dce: Any = None

    @rule
    def stablehlo(self, context: Any, operands: Any, outs: Any, **params: Any) -> Any:
        raise self.missing("stablehlo")

    # -- helpers -------------------------------------------------------------------------------

    def out_avals(self, avals: Sequence[ShapedArray], params: dict) -> list[ShapedArray]:
        """Result types as a list, whatever `multiple_results` says."""
        out = self.shape(*avals, **params)
        outs = list(out) if self.multiple_results else [out]
        for aval in avals:
            if aval.vma:
                return self.varying(avals, outs, params)
        return outs

    @rule
    def varying(
        self, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], params: dict
    ) -> list[ShapedArray]:
        """Result types that say along which axes of devices the results vary: those of operands."""
        names = frozenset().union(*(aval.vma for aval in avals))
        return [out.varying(names) for out in outs]

    def missing(self, rule: str) -> errors.MissingRule:
        try:
            where = inspect.getsourcefile(type(self)) or "?"
        except TypeError:
            where = "?"
        return errors.MissingRule(self.name, rule, where)
