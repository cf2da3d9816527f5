"""The public derivatives: grad, value_and_grad, jvp, vjp, linearize, linear_transpose."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, tree
from tetrax.ir.program import ClosedProgram
from tetrax.ops.base import instantiate, typed_scalar
from tetrax.ops.structure import zeros
from tetrax.runtime.array import as_value, make_array
from tetrax.tracebacks import boundary
from tetrax.tracing.staging import evaluate_closed, stage
from tetrax.tracing.symbolic import UndefinedPrimal, Zero
from tetrax.tracing.value import get_aval
from tetrax.transforms import jvp as jvp_engine
from tetrax.transforms.flat import (
    check_argument_leaves,
    debug_info,
    flatten_function,
    flatten_output,
    function_name,
)
from tetrax.transforms.partial import linearize as linearize_engine
from tetrax.transforms.transpose import backward_pass

Argnums = int | Sequence[int]


# -- choosing arguments ----------------------------------------------------------------------------


def argnums_tuple(argnums: Argnums, count: int, what: str) -> tuple[int, ...]:
    chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    result = []
    for n in chosen:
        if not -count <= n < count:
            raise ValueError(
                f"{what}: argnums {argnums} is out of range for a call with {count} positional "
                "argument(s)"
            )
        result.append(n % count)
    return tuple(result)


def partially_applied(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict, chosen: Sequence[int]
) -> Callable[..., Any]:
    """`fun` as a function of the chosen positional arguments alone."""

    def applied(*selected: Any) -> Any:
        full = list(args)
        for position, value in zip(chosen, selected, strict=True):
            full[position] = value
        return fun(*full, **kwargs)

    return functools.wraps(fun)(applied) if hasattr(fun, "__name__") else applied


def _split_aux(fun: Callable[..., Any], what: str) -> Callable[..., tuple[Any, Any]]:
    """`fun` returning (output, aux), with an error where it returns no pair."""

    def checked(*args: Any) -> tuple[Any, Any]:
        out = fun(*args)
        if not isinstance(out, tuple) or len(out) != 2:
            raise TypeError(
                f"{what} with has_aux=True expects {function_name(fun)} to return a pair "
                f"(output, aux), got {type(out).__name__}"
            )
        return out

    return checked


def flat_with_aux(
    fun: Callable[..., Any], in_tree: Any, has_aux: bool, what: str
) -> Callable[..., tuple[list[Any], Any]]:
    """Leaves in, (leaves, (tree, aux leaves, aux tree)) out."""
    if not has_aux:
        plain = flatten_function(fun, in_tree)

        def flat(*leaves: Any) -> tuple[list[Any], Any]:
            outs, out_tree = plain(*leaves)
            return outs, (out_tree, None)

        return flat
    pair = _split_aux(fun, what)

    def flat_aux(*leaves: Any) -> tuple[list[Any], Any]:
        args, kwargs = tree.unflatten(in_tree, leaves)
        out, aux = pair(*args, **kwargs)
        outs, out_tree = flatten_output(fun, out)
        return outs, (out_tree, aux)

    return flat_aux


def strip_tracers(aux: Any) -> Any:
    """Auxiliary output as seen outside the differentiated function: primal values only."""
    return tree.map(_primal, aux)


def _primal(x: Any) -> Any:
    while type(x) is jvp_engine.JVPTracer:
        x = x.primal
    return x


# -- checks ----------------------------------------------------------------------------------------


def check_input_dtype(what: str, holomorphic: bool, allow_int: bool, x: Any) -> None:
    dtype = get_aval(x).dtype
    if isinstance(dtype, dtypes.ExtendedDType):
        raise TypeError(f"{what} with input element type {dtype.name}: keys have no derivative")
    if holomorphic:
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise TypeError(
                f"{what} with holomorphic=True requires inputs with complex dtype, got "
                f"{dtype.name}."
            )
        return
    if dtypes.issubdtype(dtype, np.integer) or dtype == np.bool_:
        if not allow_int:
            raise TypeError(
                f"{what} requires real- or complex-valued inputs (input dtype that is a "
                "sub-dtype of "
                f"np.inexact), but got {dtype.name}. If you want to use Boolean- or integer-valued "
                "inputs, use vjp or set allow_int to True."
            )
        return
    if not dtypes.issubdtype(dtype, np.inexact):
        raise TypeError(f"{what} requires real- or complex-valued inputs, but got {dtype.name}")


def _check_scalar(
    fun: Callable[..., Any], out: Any, outs: Sequence[Any], holomorphic: bool
) -> None:
    name = function_name(fun)
    if len(outs) != 1 or tree.structure(out) != tree.structure(0):
        raise TypeError(
            "Gradient only defined for scalar-output functions. "
            f"Output of {name} was: {tree.map(lambda x: get_aval(x).str_short(), out)}."
        )
    aval = get_aval(outs[0])
    if aval.shape:
        raise TypeError(
            "Gradient only defined for scalar-output functions. "
            f"Output of {name} had shape: {aval.shape}. Use jacrev or jacfwd for Jacobians, or sum "
            "the output first."
        )
    check_output_dtype("grad", holomorphic, outs[0])


def check_output_dtype(what: str, holomorphic: bool, x: Any) -> None:
    dtype = get_aval(x).dtype
    if holomorphic:
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise TypeError(
                f"{what} with holomorphic=True requires outputs with complex dtype, got "
                f"{dtype.name}."
            )
    elif dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError(
            f"{what} requires real-valued outputs (output dtype that is a sub-dtype of "
            "np.floating), "
            f"but got {dtype.name}. For holomorphic differentiation, pass holomorphic=True. For "
            "differentiation of non-holomorphic functions involving complex outputs, use jax.vjp "
            "directly."
        )
    elif not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(
            f"{what} requires real-valued outputs (output dtype that is a sub-dtype of "
            "np.floating), "
            f"but got {dtype.name}. For differentiation of functions with integer outputs, use "
            "jax.vjp directly."
        )


# -- reverse mode ----------------------------------------------------------------------------------


class VjpFunction:
    """The pullback of `vjp`: cotangents of the result to cotangents of the arguments."""

    def __init__(
        self,
        linear: ClosedProgram,
        covered: Sequence[bool],
        primals: Sequence[Any],
        in_tree: Any,
        out_tree: Any,
        out_avals: Sequence[Any],
    ) -> None:
        self.linear = linear
        self.covered = covered
        self.in_avals = [get_aval(p) for p in primals]
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.out_avals = out_avals

    def flat(self, cotangents: Sequence[Any]) -> list[Any]:
        """Cotangents per argument leaf; symbolic zeros where nothing flows."""
        program = self.linear.program
        operands = [UndefinedPrimal(v.aval) for v in program.invars]
        cts = [ct for ct, has in zip(cotangents, self.covered, strict=True) if has]
        results = iter(backward_pass(program, self.linear.consts, operands, cts))
        out = []
        for aval in self.in_avals:
            tangent = aval.to_tangent_aval()
            out.append(Zero(tangent) if tangent.dtype == dtypes.float0 else next(results))
        return out

    def __call__(self, cotangent: Any) -> Any:
        leaves, ct_tree = tree.flatten(cotangent)
        if ct_tree != self.out_tree:
            raise ValueError(
                "vjp: the cotangent has another tree structure than the function's output: "
                f"got {ct_tree}, expected {self.out_tree}"
            )
        cts = [
            _checked_cotangent(ct, aval) for ct, aval in zip(leaves, self.out_avals, strict=True)
        ]
        results = [instantiate(ct) for ct in self.flat(cts)]
        return tree.unflatten(self.in_tree, results)


def _checked_cotangent(ct: Any, aval: Any) -> Any:
    if type(ct) is Zero:
        return ct
    expected = aval.to_cotangent_aval()
    if getattr(ct, "dtype", None) == dtypes.float0:
        return Zero(expected)
    ct = as_value(ct)
    found = ct.aval
    if expected.dtype == dtypes.float0:
        raise ValueError(
            f"vjp: cotangents of outputs with dtype {aval.dtype.name} must have dtype float0, "
            f"got {found.str_short()}"
        )
    if found.shape != expected.shape or (found.dtype != expected.dtype and not found.weak_type):
        raise ValueError(
            f"vjp: cotangent type {found.str_short()} does not match the type of the function "
            "output, "
            f"{expected.str_short()}. Cast the cotangent (ct.astype) or reshape it"
        )
    if found.dtype != expected.dtype:
        return _cast(ct, expected.dtype)
    return ct


def _cast(x: Any, dtype: Any) -> Any:
    return make_array(np.asarray(x).astype(dtype))


@boundary
def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Sequence[Any] = ()
) -> Any:
    """The value of `fun` at `primals` and its pullback (and the aux with `has_aux`).

    >>> out, pullback = vjp(lambda x: x * 3.0, 2.0)
    >>> pullback(1.0)
    (Array(3., dtype=float32, weak_type=True),)
    """
    check_argument_leaves(fun, "vjp", (primals, {}))
    out, pullback, aux = pull_back(fun, primals, has_aux, "vjp")
    return (out, pullback, aux) if has_aux else (out, pullback)


def pull_back(
    fun: Callable[..., Any], primals: Sequence[Any], has_aux: bool, what: str
) -> tuple[Any, VjpFunction, Any]:
    leaves, in_tree = tree.flatten((tuple(primals), {}))
    leaves = [as_value(x) for x in leaves]
    flat = flat_with_aux(fun, in_tree, has_aux, what)
    outs, linear, covered, (out_tree, aux) = linearize_engine(flat, leaves)
    args_tree = tree.structure(tuple(primals))
    out_avals = [get_aval(o) for o in outs]
    pullback = VjpFunction(linear, covered, leaves, args_tree, out_tree, out_avals)
    return tree.unflatten(out_tree, outs), pullback, strip_tracers(aux) if has_aux else None


def value_and_grad(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """A function that gives `fun`'s value and its gradient in the arguments `argnums`.

    Raises TypeError for integer arguments (unless `allow_int`) and for outputs that are not real
    scalars.

    >>> value_and_grad(lambda x: x * x)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable(fun, "grad")

    @documented(fun, "value_and_grad")
    @boundary
    def value_and_grad_f(*args: Any, **kwargs: Any) -> Any:
        chosen = argnums_tuple(argnums, len(args), "grad")
        selected = [args[i] for i in chosen]
        check_argument_leaves(fun, "grad", (tuple(selected), {}))
        for leaf in tree.leaves(selected):
            check_input_dtype("grad", holomorphic, allow_int, leaf)
        applied = partially_applied(fun, args, kwargs, chosen)
        value, pullback, aux = pull_back(applied, selected, has_aux, "grad")
        outs = tree.leaves(value)
        _check_scalar(fun, value, outs, holomorphic)
        aval = get_aval(outs[0])
        one = typed_scalar(1, aval.dtype, aval.weak_type)
        grads = [instantiate(ct) for ct in pullback.flat([one])]
        gradient = tree.unflatten(pullback.in_tree, grads)
        gradient = gradient[0] if isinstance(argnums, int) else tuple(gradient)
        return ((value, aux), gradient) if has_aux else (value, gradient)

    return value_and_grad_f


def grad(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """A function that gives the gradient of the scalar function `fun` in its arguments `argnums`.

    Arguments and errors as for `value_and_grad`. With `has_aux` the result is (gradient, aux).

    >>> grad(lambda x: x * x)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    @documented(fun, "grad")
    @boundary
    def grad_f(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_f


def check_callable(fun: Any, what: str) -> None:
    if not callable(fun):
        raise TypeError(f"{what} takes a function, got {fun!r:.60} of type {type(fun).__name__}")


def documented(fun: Callable[..., Any], what: str) -> Callable[[Callable], Callable]:
    """Give a transformed function its origin's name and documentation."""

    def decorate(wrapper: Callable) -> Callable:
        try:
            functools.update_wrapper(wrapper, fun)
        except (AttributeError, TypeError):
            wrapper.__name__ = what
        wrapper.__doc__ = f"{what} of {function_name(fun)}.\n\n{getattr(fun, '__doc__', '') or ''}"
        return wrapper

    return decorate


# -- forward mode ----------------------------------------------------------------------------------


@boundary
def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """The value of `fun` at `primals` and its derivative along `tangents`.

    Raises TypeError or ValueError where tangents do not fit the primals.

    >>> jvp(lambda x: x * x, (3.0,), (1.0,))
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable(fun, "jvp")
    for name, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, tuple | list):
            raise TypeError(
                f"{name} argument to jvp must be a tuple or list, got {type(value).__name__}"
            )
    leaves, in_tree = tree.flatten((tuple(primals), {}))
    tangent_leaves, tangent_tree = tree.flatten((tuple(tangents), {}))
    if in_tree != tangent_tree:
        raise TypeError(
            "primal and tangent arguments to jvp must have the same tree structure; primals have "
            f"{in_tree}, tangents have {tangent_tree}"
        )
    check_argument_leaves(fun, "jvp", (tuple(primals), {}))
    leaves = [as_value(x) for x in leaves]
    pushed = [_checked_tangent(p, t) for p, t in zip(leaves, tangent_leaves, strict=True)]
    flat = flat_with_aux(fun, in_tree, has_aux, "jvp")
    outs, out_tangents, (out_tree, aux) = jvp_engine.jvp(flat, leaves, pushed)
    value = tree.unflatten(out_tree, outs)
    tangent = tree.unflatten(out_tree, [instantiate(t) for t in out_tangents])
    return (value, tangent, strip_tracers(aux)) if has_aux else (value, tangent)


def _checked_tangent(primal: Any, tangent: Any) -> Any:
    expected = get_aval(primal).to_tangent_aval()
    if getattr(tangent, "dtype", None) == dtypes.float0 or type(tangent) is Zero:
        return Zero(expected)
    tangent = as_value(tangent)
    found = tangent.aval
    if expected.dtype == dtypes.float0 or found.dtype != expected.dtype:
        raise TypeError(
            "primal and tangent arguments to jvp do not match; dtypes must be equal, or in case of "
            "int/bool primal dtype the tangent dtype must be float0. Got primal dtype "
            f"{get_aval(primal).dtype.name} and so expected tangent dtype {expected.dtype.name}, "
            "but "
            f"got tangent dtype {found.dtype.name} instead."
        )
    if found.shape != expected.shape:
        raise ValueError(
            "jvp called with different primal and tangent shapes; Got primal shape "
            f"{get_aval(primal).shape} and tangent shape as {found.shape}"
        )
    return tangent


@boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `fun` at `primals` and its derivative there as a linear function of tangents.

    >>> out, push = linearize(lambda x: x * x, 3.0)
    >>> push(1.0)
    Array(6., dtype=float32, weak_type=True)
    """
    leaves, in_tree = tree.flatten((tuple(primals), {}))
    check_argument_leaves(fun, "linearize", (tuple(primals), {}))
    leaves = [as_value(x) for x in leaves]
    flat = flat_with_aux(fun, in_tree, has_aux, "linearize")
    outs, linear, covered, (out_tree, aux) = linearize_engine(flat, leaves)
    out_avals = [get_aval(o) for o in outs]
    args_tree = tree.structure(tuple(primals))

    def push(*tangents: Any) -> Any:
        tangent_leaves, tangent_tree = tree.flatten(tuple(tangents))
        if tangent_tree != args_tree:
            raise TypeError(
                f"linearized function called with tangents of structure {tangent_tree}, expected "
                f"{args_tree}"
            )
        checked = [_checked_tangent(p, t) for p, t in zip(leaves, tangent_leaves, strict=True)]
        given = [
            instantiate(t)
            for p, t in zip(leaves, checked, strict=True)
            if get_aval(p).to_tangent_aval().dtype != dtypes.float0
        ]
        results = iter(evaluate_closed(linear, *given))
        pushed = [
            next(results) if has else zeros(aval.to_tangent_aval())
            for has, aval in zip(covered, out_avals, strict=True)
        ]
        return tree.unflatten(out_tree, pushed)

    value = tree.unflatten(out_tree, outs)
    return (value, push, strip_tracers(aux)) if has_aux else (value, push)


def linear_transpose(
    fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[Any] = ()
) -> Callable[..., Any]:
    """The transpose of a function that is linear in all its arguments.

    `primals` are arrays or anything with shape and dtype. Raises TypeError where `fun` is not
    linear because an operation in it has no transpose.
    """
    leaves, in_tree = tree.flatten((tuple(primals), {}))
    avals = [_shaped(x) for x in leaves]
    args_tree = tree.structure(tuple(primals))
    closed, out_tree = stage(flatten_function(fun, in_tree), avals, debug_info(fun, primals, {}))
    for aval in [*avals, *closed.out_avals]:
        if not dtypes.issubdtype(aval.dtype, np.inexact):
            raise TypeError(
                "linear_transpose only supports [float or complex] -> [float or complex] "
                "functions, "
                f"but got {aval.dtype.name}"
            )

    def transposed(cotangent: Any) -> Any:
        cts, ct_tree = tree.flatten(cotangent)
        if ct_tree != out_tree:
            raise TypeError(
                f"cotangent tree does not match function output, expected {out_tree} but got "
                f"{ct_tree}"
            )
        checked = [_checked_cotangent(c, a) for c, a in zip(cts, closed.out_avals, strict=True)]
        operands = [UndefinedPrimal(a) for a in avals]
        results = backward_pass(closed.program, closed.consts, operands, checked)
        return tree.unflatten(args_tree, [instantiate(ct) for ct in results])

    return transposed


def _shaped(x: Any) -> Any:
    if hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, np.ndarray | np.generic):
        return get_aval(x) if hasattr(x, "aval") else _from_struct(x)
    return get_aval(x)


def _from_struct(x: Any) -> Any:
    aval_type = type(get_aval(0.0))
    return aval_type(tuple(x.shape), dtypes.canonicalize_dtype(x.dtype))
