"""`checkify`: run-time checks as values, in functions that are jitted, mapped or looped.

`checkify(f)` gives a function that returns `(error, f(...))`. A check that fails sets the error and
does not stop the computation. How: `f` is staged, and its program is rewritten so that every place
that can fail (a *site*) has a state, a flag with a payload for its message; loops carry the states
of their bodies, branches give the states of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tetrax import errors as tetrax_errors
from tetrax import lax, tree
from tetrax import numpy as jnp
from tetrax.experimental._sites import (
    OOBError,
    Payload,
    Site,
    check_p,
    checked_program,
    div_checks,
    float_checks,
    index_checks,
    nan_checks,
    states_of,
    user_checks,
)
from tetrax.higher_order.inspect import shaped
from tetrax.runtime.array import as_value
from tetrax.tracing.staging import evaluate_closed, stage
from tetrax.tracing.trace import Tracer
from tetrax.transforms.flat import debug_info, flatten_function
from tetrax.tree_util import register_pytree_node_class

ErrorCategory = str
JaxRuntimeError = tetrax_errors.JaxRuntimeError

automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks


class CheckError(JaxRuntimeError, ValueError):
    """A check that failed, raised by `Error.throw`."""


@register_pytree_node_class
@dataclass
class Error:
    """What went wrong, if anything: one state per site, in program order."""

    states: list[Payload]
    sites: tuple[Site, ...] = ()

    def get(self) -> str | None:
        """The message of the first site that failed, or None."""
        for state, site in zip(self.states, self.sites, strict=True):
            flag = np.asarray(state[0])
            if flag.any():
                where = int(np.argmax(flag.reshape(-1)))
                payload = [_pick(p, flag.ndim, where) for p in state[1:]]
                prefix = f"at mapped index {where}: " if flag.ndim else ""
                return prefix + site.message(payload)
        return None

    def get_exception(self) -> CheckError | None:
        """The failure as an exception, or None."""
        message = self.get()
        return None if message is None else CheckError(message)

    def throw(self) -> None:
        """Raise the failure, if there is one."""
        exception = self.get_exception()
        if exception is not None:
            raise exception

    def tree_flatten(self) -> tuple[tuple[list[Payload]], tuple[Site, ...]]:
        return (self.states,), self.sites

    @classmethod
    def tree_unflatten(cls, sites: tuple[Site, ...], children: Sequence[Any]) -> Error:
        return cls(children[0], sites)

    def __str__(self) -> str:
        return f"Error({self.get()})"

    __repr__ = __str__


def _pick(payload: Any, batch_rank: int, index: int) -> np.ndarray:
    value = np.asarray(payload)
    return value.reshape(-1, *value.shape[batch_rank:])[index] if batch_rank else value


init_error = Error([], ())


def checkify(
    f: Callable[..., Any], errors: frozenset[ErrorCategory] = user_checks
) -> Callable[..., tuple[Error, Any]]:
    """`f` with the checks of `errors` turned into a value: a function that returns `(error, out)`.

    >>> error, out = checkify(lambda x: jnp.log(x), errors=float_checks)(-1.0)
    >>> "nan" in error.get()
    True
    """

    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        leaves, in_tree = tree.flatten((args, kwargs))
        leaves = [as_value(x) for x in leaves]
        closed, out_tree = stage(
            flatten_function(f, in_tree), [shaped(x) for x in leaves], debug_info(f, args, kwargs)
        )
        program, sites = checked_program(closed, frozenset(errors))
        outs = evaluate_closed(program, *leaves)
        count = len(closed.out_avals)
        states = states_of(outs[count:], sites)
        return Error(states, tuple(sites)), tree.unflatten(out_tree, outs[:count])

    return checked


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Require `pred` (a bool scalar); `msg.format(*fmt_args, **fmt_kwargs)` says what failed.

    Outside `checkify` a false predicate raises at once; in a staged function it needs `checkify`.

    >>> check(True, "x is {}", 3)
    """
    value = as_value(pred)
    if value.aval.shape or value.aval.dtype != np.bool_:
        raise TypeError(f"check takes a bool scalar, got {value.aval.str_short()}")
    leaves, treedef = tree.flatten((fmt_args, fmt_kwargs))
    payload = [as_value(x) for x in leaves]
    check_p.bind(value, *payload, fmt=msg, treedef=treedef, debug=debug)


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """`check` that is ignored where nobody has asked by `checkify`."""
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def check_error(error: Error) -> None:
    """Require that `error` holds no failure; for the error of an inner `checkify`."""
    for state, site in zip(error.states, error.sites, strict=True):
        failed = jnp.any(state[0])
        if not isinstance(failed, Tracer):
            if bool(failed):
                error.throw()
            continue
        check(lax.bitwise_not(failed), site.title.replace("{", "{{").replace("}", "}}"))


__all__ = [
    "CheckError",
    "Error",
    "ErrorCategory",
    "JaxRuntimeError",
    "OOBError",
    "all_checks",
    "automatic_checks",
    "check",
    "check_error",
    "checkify",
    "debug_check",
    "div_checks",
    "float_checks",
    "index_checks",
    "init_error",
    "nan_checks",
    "user_checks",
]
