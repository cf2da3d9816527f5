"""`custom_jvp` and `custom_vjp`: functions that bring their own derivative rules."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tetrax import dtypes, tree
from tetrax.higher_order.call import hoist_consts
from tetrax.higher_order.custom_primitives import (
    SymbolicZero,
    custom_jvp_call_p,
    custom_vjp_call_p,
    symbolic_zero,
)
from tetrax.ops.base import instantiate
from tetrax.ops.convert import convert_element_type
from tetrax.runtime.array import as_value
from tetrax.tracing.staging import evaluate_closed, stage
from tetrax.tracing.symbolic import Zero
from tetrax.tracing.trace import Tracer
from tetrax.tracing.value import Value, get_aval, is_operand
from tetrax.transforms.flat import (
    check_argument_leaves,
    flatten_function,
    flatten_output,
    function_name,
    with_fixed,
)
from tetrax.tree_util import Partial


class _Custom:
    """What both kinds share: the function, and which arguments are not differentiated."""

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        self.fun = fun
        self.nondiff_argnums = tuple(nondiff_argnums)
        self.nondiff_argnames = tuple(nondiff_argnames)
        wrapper: Any = self
        functools.update_wrapper(wrapper, fun, updated=())
        if not hasattr(self, "__name__"):
            self.__name__ = function_name(fun)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _resolve(self, args: tuple, kwargs: dict) -> tuple[Any, ...]:
        """Positional arguments, with keyword ones and defaults in their places."""
        if not kwargs:
            try:
                bound = inspect.signature(self.fun).bind(*args)
            except (ValueError, TypeError):
                return args
        else:
            try:
                bound = inspect.signature(self.fun).bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(
                    f"The input arguments to the custom derivative function {self.__name__} "
                    "could not "
                    f"be resolved to positional-only arguments. Binding failed with the "
                    f"error:\n{error}"
                ) from None
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"keyword arguments could not be resolved to positions in {self.__name__}: "
                f"{', '.join(bound.kwargs)}"
            )
        return bound.args

    def _split(self, args: tuple) -> tuple[list[Any], list[int], list[Any]]:
        """(differentiated arguments, their positions, the others in order)."""
        count = len(args)
        numbers = [n % count for n in self.nondiff_argnums if -count <= n < count]
        if self.nondiff_argnames:
            names = list(inspect.signature(self.fun).parameters)
            numbers += [names.index(name) for name in self.nondiff_argnames]
        for n in numbers:
            for leaf in tree.leaves(args[n]):
                if isinstance(leaf, Tracer):
                    raise _traced_nondiff(self.__name__, n, leaf)
        positions = [i for i in range(count) if i not in set(numbers)]
        return [args[i] for i in positions], positions, [args[n] for n in numbers]


def _traced_nondiff(name: str, position: int, leaf: Tracer) -> TypeError:
    return TypeError(
        f"argument {position} of {name} is listed in nondiff_argnums, but it holds "
        f"{leaf.describe()}. "
        "nondiff_argnums is for values that are not arrays (functions, strings, Python numbers): "
        "pass "
        "the array as an ordinary argument, and let the rule ignore its tangent or return None "
        "for its "
        "cotangent"
    )


class custom_jvp(_Custom):
    """A function with its own forward derivative rule.

    >>> @custom_jvp
    ... def f(x):
    ...     return x * x
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     return f(*primals), 2 * primals[0] * tangents[0]
    """

    jvp: Callable[..., Any] | None = None
    symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule `jvp(*nondiff, primals, tangents) -> (out, tangent_out)`; returns it."""
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set one rule `jvp_i(tangent_i, out, *primals)` per argument; None means zero."""
        if self.nondiff_argnums:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            out = self(*primals)
            terms = [f(t, out, *primals) for f, t in zip(jvps, tangents, strict=True) if f]
            if not terms:
                return out, tree.map(lambda x: instantiate(Zero.from_primal_value(x)), out)
            total = functools.reduce(lambda a, b: tree.map(lambda x, y: x + y, a, b), terms)
            return out, total

        self.defjvp(rule)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.jvp is None:
            raise AttributeError(
                f"No JVP defined for custom_jvp function {self.__name__} using defjvp."
            )
        args = self._resolve(args, kwargs)
        dyn, positions, fixed = self._split(args)
        check_argument_leaves(self.fun, "custom_jvp", (tuple(dyn), {}))
        leaves, in_tree = tree.flatten((tuple(dyn), {}))
        leaves = [as_value(x) for x in leaves]
        fun = flatten_function(with_fixed(self.fun, args, positions), in_tree)
        rule = self._flat_rule(in_tree, fixed)
        outs, out_tree = custom_jvp_call_p.bind(
            fun, rule, *leaves, symbolic_zeros=self.symbolic_zeros, name=self.__name__
        )
        return tree.unflatten(out_tree, outs)

    def _flat_rule(self, in_tree: Any, fixed: Sequence[Any]) -> Callable[..., Any]:
        jvp, name = self.jvp, self.__name__
        assert jvp is not None

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            tangents = [symbolic_zero(t) if type(t) is Zero else t for t in tangents]
            primal_args = tree.unflatten(in_tree, primals)[0]
            tangent_args = tree.unflatten(in_tree, tangents)[0]
            pair = jvp(*fixed, primal_args, tangent_args)
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise TypeError(
                    f"Custom JVP rule {function_name(jvp)} for function {name} must produce a pair "
                    f"(list or tuple of length two) representing primal and tangent outputs, but "
                    "got "
                    f"{pair!r:.60}."
                )
            outs, out_tree = flatten_output(jvp, pair[0])
            pushed, tangent_tree = tree.flatten(
                pair[1], is_leaf=lambda x: isinstance(x, Zero | SymbolicZero)
            )
            if tangent_tree != out_tree:
                raise TypeError(
                    f"Custom JVP rule {function_name(jvp)} for function {name} must produce "
                    "primal and "
                    f"tangent outputs with equal container (pytree) structures, but got "
                    f"{out_tree} and "
                    f"{tangent_tree} respectively."
                )
            return (outs, _checked_tangents(name, jvp, outs, pushed)), out_tree

        return rule


def _checked_tangents(
    name: str, rule: Callable[..., Any], outs: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    result = []
    for out, tangent in zip(outs, tangents, strict=True):
        expected = get_aval(out).to_tangent_aval()
        if isinstance(tangent, Zero | SymbolicZero) or expected.dtype == dtypes.float0:
            result.append(Zero(expected))
            continue
        tangent = as_value(tangent)
        found = tangent.aval
        if found.shape != expected.shape or (
            found.dtype != expected.dtype and not found.weak_type and not get_aval(out).weak_type
        ):
            raise TypeError(
                f"Custom JVP rule {function_name(rule)} for function {name} must produce primal "
                "and "
                "tangent outputs with corresponding shapes and dtypes. Expected tangent type "
                f"{expected.str_short()} but got {found.str_short()}."
            )
        if found.dtype != expected.dtype:
            tangent = convert_element_type(tangent, expected.dtype)
        result.append(tangent)
    return result


class custom_vjp(_Custom):
    """A function with its own reverse derivative rule.

    >>> @custom_vjp
    ... def f(x):
    ...     return x * x
    >>> f.defvjp(lambda x: (x * x, x), lambda x, ct: (2 * x * ct,))
    """

    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None
    symbolic_zeros = False

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set `fwd(*args) -> (out, residuals)` and `bwd(*nondiff, residuals, ct) -> cotangents`."""
        self.fwd, self.bwd = fwd, bwd
        self.symbolic_zeros = symbolic_zeros

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise AttributeError(
                f"No VJP defined for custom_vjp function {self.__name__} using defvjp."
            )
        args = self._resolve(args, kwargs)
        dyn, positions, fixed = self._split(args)
        check_argument_leaves(self.fun, "custom_vjp", (tuple(dyn), {}))
        leaves, in_tree = tree.flatten((tuple(dyn), {}))
        leaves = [as_value(x) for x in leaves]
        fun = flatten_function(with_fixed(self.fun, args, positions), in_tree)
        fwd = self._flat_fwd(with_fixed(self.fwd, args, positions), in_tree)
        bwd = self._flat_bwd(in_tree, fixed)
        outs, out_tree = custom_vjp_call_p.bind(
            fun, fwd, bwd, *leaves, symbolic_zeros=self.symbolic_zeros, name=self.__name__
        )
        return tree.unflatten(out_tree, outs)

    def _flat_fwd(self, fwd: Callable[..., Any], in_tree: Any) -> Callable[..., Any]:
        """Leaves to ((outs, residual leaves), (out_tree, residual tree))."""
        name = self.__name__

        def flat(*leaves: Any) -> tuple[Any, Any]:
            args, _ = tree.unflatten(in_tree, leaves)
            pair = fwd(*args)
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise TypeError(
                    f"Custom VJP fwd rule {function_name(fwd)} for function {name} must produce "
                    "a pair "
                    "(list or tuple of length two) where the first element represents the primal "
                    f"output and the second residuals, but got {pair!r:.60}."
                )
            outs, out_tree = flatten_output(fwd, pair[0])
            residuals, residual_tree = tree.flatten(pair[1])
            return (outs, residuals), (out_tree, residual_tree)

        return flat

    def _flat_bwd(self, in_tree: Any, fixed: Sequence[Any]) -> Callable[..., Any]:
        """(residuals, residual tree, cotangents, out tree, input types) to input cotangents."""
        bwd, name = self.bwd, self.__name__
        assert bwd is not None

        def flat(
            residuals: Sequence[Any],
            residual_tree: Any,
            cotangents: Sequence[Any],
            out_tree: Any,
            in_avals: Sequence[Any],
        ) -> list[Any]:
            cts = [symbolic_zero(ct) if type(ct) is Zero else ct for ct in cotangents]
            result = bwd(
                *fixed, tree.unflatten(residual_tree, residuals), tree.unflatten(out_tree, cts)
            )
            return _checked_cotangents(name, bwd, result, in_tree, in_avals)

        return flat


def _checked_cotangents(
    name: str, bwd: Callable[..., Any], result: Any, in_tree: Any, in_avals: Sequence[Any]
) -> list[Any]:
    """Leaves of what a bwd rule returned, None meaning zero. Raises TypeError or ValueError."""
    args_tree = in_tree.children()[0]
    count = args_tree.num_children if hasattr(args_tree, "num_children") else None
    if isinstance(result, list) and count == len(result):
        result = tuple(result)
    if not isinstance(result, tuple):
        raise TypeError(
            f"Custom VJP bwd rule {function_name(bwd)} for function {name} must produce a tuple of "
            f"cotangents, one per argument, but got {type(result).__name__}"
        )
    children = args_tree.children()
    if len(children) != len(result):
        raise TypeError(
            f"Custom VJP bwd rule {function_name(bwd)} for function {name} must produce an output "
            "with the same container (pytree) structure as the args tuple of the primal function: "
            f"expected {len(children)} cotangents, got {len(result)}"
        )
    leaves: list[Any] = []
    for part, child in zip(result, children, strict=True):
        if part is None:
            leaves += [None] * child.num_leaves
            continue
        is_leaf = lambda x: x is None or isinstance(x, Zero | SymbolicZero)
        found, found_tree = tree.flatten(part, is_leaf=is_leaf)
        if found_tree != child and len(found) != child.num_leaves:
            raise TypeError(
                f"Custom VJP bwd rule {function_name(bwd)} for function {name}: a cotangent has "
                "the "
                f"tree {found_tree}, the argument has {child}"
            )
        leaves += found
    return [_checked_ct(name, bwd, ct, aval) for ct, aval in zip(leaves, in_avals, strict=True)]


def _checked_ct(name: str, bwd: Callable[..., Any], ct: Any, aval: Any) -> Any:
    expected = aval.to_cotangent_aval()
    if ct is None or isinstance(ct, Zero | SymbolicZero) or expected.dtype == dtypes.float0:
        return Zero(expected)
    if not is_operand(ct) and not isinstance(ct, Value):
        raise TypeError(
            f"Custom VJP bwd rule {function_name(bwd)} for {name} gave {ct!r:.60} for a cotangent"
        )
    if getattr(ct, "dtype", None) == dtypes.float0:
        return Zero(expected)
    ct = as_value(ct)
    found = ct.aval
    if found.shape != expected.shape:
        raise ValueError(
            f"Custom VJP bwd rule {function_name(bwd)} for function {name} must produce cotangents "
            f"with the shapes of the arguments: expected {expected.str_short()}, got "
            f"{found.str_short()}"
        )
    if found.dtype != expected.dtype:
        ct = convert_element_type(ct, expected.dtype)
    return ct


def custom_gradient(fun: Callable[..., Any]) -> custom_vjp:
    """A function whose body also gives its gradient: `fun(*args) -> (out, ct -> cotangents)`.

    >>> @custom_gradient
    ... def f(x):
    ...     return x * x, lambda ct: (2 * x * ct,)
    """

    @custom_vjp
    @functools.wraps(fun)
    def wrapped(*args: Any) -> Any:
        return fun(*args)[0]

    def fwd(*args: Any) -> tuple[Any, Any]:
        out, pullback = fun(*args)
        return out, _as_residual(pullback, out)

    def bwd(residual: Any, ct: Any) -> Any:
        cts = residual(ct)
        return cts if isinstance(cts, tuple) else (cts,)

    wrapped.defvjp(fwd, bwd)
    return wrapped


def _as_residual(pullback: Callable[..., Any], out: Any) -> Partial:
    """A pullback as a tree: its leaves are the arrays it closes over."""
    leaves = tree.leaves(out)
    avals = [get_aval(x).to_cotangent_aval() for x in leaves]
    closed, ct_tree = stage(flatten_function(pullback, tree.structure(((out,), {}))), avals)
    open_program, consts = hoist_consts(closed)

    def apply(consts: Sequence[Any], ct: Any) -> Any:
        return tree.unflatten(ct_tree, evaluate_closed(open_program, *consts, *tree.leaves(ct)))

    return Partial(apply, consts)
