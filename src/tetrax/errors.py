"""The exceptions of Tetrax, in one tree.

    TetraxError (Exception)
    ├── JAXTypeError (TypeError)                  JAX's name for what the next two have in common
    │   ├── TracedValueError                      a traced value where a known one is needed
    │   │   ├── ConcretizationTypeError           ... as a plain Python value: float(x), a shape
    │   │   │   └── TracerBoolConversionError     ... as a truth value: if, while, and, or, assert
    │   │   ├── TracerArrayConversionError        ... as a NumPy array, by a NumPy function
    │   │   ├── TracerIntegerConversionError      ... as a Python integer: range(x), a list index
    │   │   └── UnexpectedTracerError             ... after its function had returned
    │   └── KeyReuseError                         a random key was consumed twice
    ├── TracedIndexError (IndexError)
    │   └── NonConcreteBooleanIndexError          a traced boolean mask: result size unknown
    ├── ShapeError (TypeError)                    shapes, dtypes or axes that do not fit
    ├── TypePromotionError (ValueError)           dtypes without a common dtype
    ├── InPlaceAssignmentError (TypeError)        x[0] = 1 on an immutable array
    ├── DonatedBufferError (RuntimeError)         an array that was given away or deleted
    ├── NotAddressableError (RuntimeError)        an array of which other processes hold parts
    ├── IndivisibleError (ValueError)             a size that does not divide over devices
    ├── DuplicateSpecError (ValueError)           a mesh axis that is used for two dimensions
    ├── PytreeError (ValueError)                  trees that do not fit or cannot be flattened
    ├── InconclusiveDimensionOperation            a question about sizes that has no one answer
    ├── MissingRule (NotImplementedError)         an operation lacks a rule that is needed
    ├── ProgramError (TypeError)                  a Program that breaks a rule of the IR
    ├── KernelError (TypeError)                   a Kernel that breaks a rule of the loop IR
    ├── CollectiveError (RuntimeError)            devices that do not meet, or that are not there
    └── JaxRuntimeError (RuntimeError)            the compiler or the machine failed
        └── ProcessError                          another process of the program has ended

Class names and builtin bases are JAX's wherever JAX has the class. The errors about traced values
are built from the value itself: it is asked for `describe()`, which says what it is and where it
comes from.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = [
    "CollectiveError",
    "ConcretizationTypeError",
    "DonatedBufferError",
    "DuplicateSpecError",
    "InPlaceAssignmentError",
    "InconclusiveDimensionOperation",
    "IndivisibleError",
    "JAXIndexError",
    "JAXTypeError",
    "JaxRuntimeError",
    "JaxprTypeError",
    "KernelError",
    "KeyReuseError",
    "MissingRule",
    "NonConcreteBooleanIndexError",
    "NotAddressableError",
    "ProcessError",
    "ProgramError",
    "PytreeError",
    "ShapeError",
    "TetraxError",
    "TracedIndexError",
    "TracedValueError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TypePromotionError",
    "UnexpectedTracerError",
]


@runtime_checkable
class Describable(Protocol):
    """What the errors about traced values need to know of such a value."""

    def describe(self) -> str:
        """Say what the value is and where it was made, in a line or two."""
        ...


class TetraxError(Exception):
    """The base of every exception that Tetrax raises on its own account."""


def _describe(value: object) -> str:
    """Return the value's own description, or its `repr` where it offers none."""
    return value.describe() if isinstance(value, Describable) else repr(value)


def _restore(kind: type[TetraxError], message: str) -> TetraxError:
    """Rebuild a pickled error from its finished message, without its constructor."""
    error = kind.__new__(kind, message)
    error.args = (message,)
    return error


class _ComposedMessage:
    """Pickling for errors whose constructor takes something other than the message."""

    args: tuple[object, ...]

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (type(self), str(self.args[0]))


# --------------------------------------------------------------------------- traced values


class JAXTypeError(TetraxError, TypeError):
    """What JAX calls the common base of the errors about traced values and random keys."""


class TracedValueError(JAXTypeError):
    """A traced value, whose contents are not known yet, was used where a known one is needed."""


class TracedIndexError(TetraxError, IndexError):
    """An index whose contents are not known yet was used where they must be."""


class ConcretizationTypeError(_ComposedMessage, TracedValueError):
    """A traced value was needed as a plain Python value.

    Under `jit`, `vmap` and the like, a function runs once on stand-ins that have a shape and a
    dtype but no contents. `float(x)`, a shape or an axis computed from `x`, or `x` as a dictionary
    key ask for the contents. Make that argument static (`static_argnums`, `static_argnames`),
    compute the number from `x.shape` instead, or keep the computation in arrays (`jnp.where`,
    `lax.cond`).

    Args:
        tracer: the value.
        context: what it was needed for; appended to the message.
    """

    def __init__(self, tracer: object, context: str = ""):
        super().__init__(
            "A concrete value is needed here, but the value is traced, so its contents are not "
            f"known yet: {_describe(tracer)}."
            + (f"\n{context.strip()}" if context else "")
            + "\nIf it is an argument of a jitted function, mark it with `static_argnums` or "
            "`static_argnames`. If it is computed, stay in arrays: `jnp.where`, `lax.cond`, or "
            "sizes taken from `x.shape`, which is always known."
        )


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value was used as a truth value, in `if`, `while`, `and`, `or`, `not` or `assert`.

    Which branch Python takes must be known while the function is traced. Use `lax.cond` or
    `jnp.where` for a choice, `lax.while_loop` for a loop, `&`, `|`, `~` for logic on arrays; or
    mark the argument with `static_argnums` when it takes few values.
    """

    def __init__(self, tracer: object):
        TetraxError.__init__(
            self,
            "The truth value, bool(x), of a traced array is needed (if, while, and, or, not, "
            "assert), but "
            f"its contents are not known yet: {_describe(tracer)}."
            "\nFor a choice use `lax.cond` or `jnp.where`, for a loop `lax.while_loop`, for logic "
            "`&`, `|` and `~`. If it is an argument of a jitted function that takes few values, "
            "mark it with `static_argnums` or `static_argnames`.",
        )


class TracerArrayConversionError(_ComposedMessage, TracedValueError):
    """A traced value was converted to a NumPy array.

    Usually a NumPy function was called on it: call the one from `tetrax.numpy` instead. A NumPy
    array indexed with a traced index does the same: make the array a Tetrax one with `jnp.asarray`
    first. Code that must run in NumPy can be called with `jax.pure_callback`.
    """

    def __init__(self, tracer: object):
        super().__init__(
            "A NumPy array was asked for, but the value is traced, so its contents are not known "
            f"yet: {_describe(tracer)}."
            "\nCall the `jnp` function of the same name instead of NumPy's; where a NumPy array is "
            "indexed with a traced index, wrap it first: `jnp.asarray(array)[index]`. Code that "
            "must stay in NumPy can be called through `pure_callback`."
        )


class TracerIntegerConversionError(_ComposedMessage, TracedValueError):
    """A traced value was used as a Python integer, as in `range(n)`, `a_list[i]` or a shape.

    Mark the argument with `static_argnums`; loop with `lax.fori_loop`; index arrays rather than
    lists (`jnp.stack(a_list)[i]`), or choose among functions with `lax.switch`.
    """

    def __init__(self, tracer: object):
        super().__init__(
            "A Python integer is needed, but the value is traced, so its contents are not known "
            f"yet: {_describe(tracer)}."
            "\nTo loop, use `lax.fori_loop`; to index a list, make it an array "
            "(`jnp.stack(items)[i]`) or choose with `lax.switch`; for a size or an axis, mark the "
            "argument with `static_argnums` or `static_argnames`."
        )


class UnexpectedTracerError(TracedValueError):
    """A traced value was used after the function that made it had returned.

    The function stored it somewhere: in a global, on `self`, in a closure, in a list. Return it
    instead. `check_tracer_leaks` (`jax.checking_leaks()`) finds the place where it escaped.
    """


class NonConcreteBooleanIndexError(_ComposedMessage, TracedIndexError):
    """An array was indexed with a traced boolean mask, so that the size of the result is unknown.

    Use `jnp.where(mask, x, other)`, reductions with `where=mask`, or a fixed size:
    `jnp.nonzero(mask, size=n)`, `jnp.compress(..., size=n)`.
    """

    def __init__(self, tracer: object):
        super().__init__(
            "An array was indexed with a traced boolean mask, so the size of the result is not "
            f"known: {_describe(tracer)}."
            "\nUse `jnp.where(mask, x, other)`, a reduction with `where=mask`, or a fixed size: "
            "`jnp.nonzero(mask, size=n, fill_value=...)`. To assign, `jnp.where(mask, new, x)` "
            "does what `x.at[mask].set(new)` would."
        )


# --------------------------------------------------------------------------- arrays and trees


class ShapeError(TetraxError, TypeError):
    """Shapes, dtypes or axes do not fit the operation; the message gives all of them."""


class TypePromotionError(TetraxError, ValueError):
    """The dtypes have no common dtype; convert one of the operands with `astype`."""


class InPlaceAssignmentError(TetraxError, TypeError):
    """An array was assigned to in place.

    Arrays are immutable, which is what lets functions be transformed. `y = x.at[0].set(1)` returns
    the changed array; inside `jit` no copy is made where `x` is not used again.
    """

    def __init__(self, message: str = ""):
        super().__init__(
            message
            or "Arrays are immutable: `x[index] = value` is not possible. "
            "Use `x = x.at[index].set(value)` (also `.add`, `.multiply`, `.min`, `.max`), which "
            "returns the changed array; inside `jit` it is done in place where that is safe."
        )


class DonatedBufferError(TetraxError, RuntimeError):
    """An array was used after its memory was given away (`donate_argnums`) or deleted.

    Use the array that the call returned, or do not donate the argument.
    """


class NotAddressableError(TetraxError, RuntimeError):
    """The value of an array was needed, of which devices of other processes hold parts."""


class IndivisibleError(TetraxError, ValueError):
    """A dimension was to be cut over devices into parts that would not be equal."""


class DuplicateSpecError(TetraxError, ValueError):
    """A sharding uses one mesh axis for more than one dimension."""


class PytreeError(TetraxError, ValueError):
    """Trees do not fit each other or cannot be flattened; the message names the place."""


class InconclusiveDimensionOperation(TetraxError):
    """A comparison of symbolic sizes holds for some of their values and not for others."""


class KeyReuseError(JAXTypeError):
    """A random key was consumed twice, so that two results are correlated; `split` it first."""


# --------------------------------------------------------------------------- engine


class MissingRule(_ComposedMessage, TetraxError, NotImplementedError):
    """An operation has no rule for what a transformation asks of it.

    Args:
        operation: the operation's name.
        rule: the missing rule: "jvp", "transpose", "batch", "kernel", ...
        file: the file to add it to, where known.
    """

    def __init__(self, operation: str, rule: str, file: str | None = None):
        super().__init__(
            f"The operation `{operation}` has no `{rule}` rule."
            + (f" Add it in {file}." if file else "")
            + (" Reverse-mode derivatives need it." if rule == "transpose" else "")
        )
        self.operation = operation
        self.rule = rule
        self.file = file


class ProgramError(TetraxError, TypeError):
    """A Program breaks a rule of the IR: unbound variables, wrong types, unknown operations."""


class KernelError(TetraxError, TypeError):
    """A Kernel breaks a rule of the loop IR: types, scopes, buffer modes."""


class CollectiveError(TetraxError, RuntimeError):
    """Devices of one program did not meet: one has ended, or is in another collective."""


class JaxRuntimeError(TetraxError, RuntimeError):
    """The compiler or the machine failed while a computation was built or run."""


class ProcessError(JaxRuntimeError):
    """Data could not be exchanged with the other processes of the program.

    One of them has failed or ended, or has kept this one waiting for longer than the setting
    `process_timeout` allows. No exchange is possible after that: save what is worth saving, end,
    and start the program again, from its last checkpoint.

    Args:
        message: which process, and what this one was doing.
        rank: the process that has ended, where one has.
    """

    def __init__(self, message: str, rank: int | None = None):
        super().__init__(message)
        self.rank = rank


# JAX's names for two of the classes above.
JAXIndexError = TracedIndexError
JaxprTypeError = ProgramError
