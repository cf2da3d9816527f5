"""What users do wrong, and the one clear error each gets.

A row is (what the user wrote, exception class, words the message must hold). The words name the
call, shapes and dtypes, and the remedy.
"""

from __future__ import annotations

import traceback

import pytest

import numpy as np
import tetrax
import tetrax.numpy as jnp
from tetrax import errors, lax


def f32(*shape):
    return jnp.ones(shape, jnp.float32)


def branch_on_value(amount):
    return amount if amount > 0 else -amount


def donated_twice():
    x = f32(3)
    double = tetrax.jit(lambda v: v * 2, donate_argnums=0)
    double(x)
    return x + 1


def leaked():
    kept = []

    def remember(v):
        kept.append(v * 2)
        return v

    tetrax.jit(remember)(f32(2, 3))
    return kept[0] + 1


def assign():
    x = f32(3)
    x[0] = 1.0


def callback_raises():
    def fail(x):
        raise LookupError("no such row")

    return tetrax.jit(lambda x: tetrax.pure_callback(fail, x, x))(f32(2))


def wrong_carry():
    return lax.scan(
        lambda c, x: ({"a": c["a"], "b": c["b"].astype(int)}, x), {"a": 1.0, "b": f32(2)}, f32(3)
    )


ROWS = [
    # shapes and dtypes
    (
        "lax.add of different shapes",
        lambda: lax.add(f32(2, 3), f32(4)),
        TypeError,
        ["(2, 3)", "(4,)"],
    ),
    (
        "lax.add of different dtypes",
        lambda: lax.add(f32(2), jnp.ones(2, int)),
        TypeError,
        ["equal dtypes", "float32", "int32"],
    ),
    ("jnp broadcasting", lambda: f32(2, 3) + f32(4), (TypeError, ValueError), ["(2, 3)", "(4,)"]),
    ("matmul", lambda: f32(2, 3) @ f32(4, 5), TypeError, ["3", "4"]),
    ("reshape", lambda: f32(6).reshape(4, 2), TypeError, ["(4, 2)", "(6,)"]),
    (
        "concatenate",
        lambda: jnp.concatenate([f32(2, 3), f32(3, 2)]),
        TypeError,
        ["(2, 3)", "(3, 2)"],
    ),
    (
        "transpose",
        lambda: lax.transpose(f32(2, 3), (0, 0)),
        (TypeError, ValueError),
        ["permutation", "(0, 0)"],
    ),
    (
        "dot_general",
        lambda: lax.dot_general(f32(2, 3), f32(4, 5), (((1,), (0,)), ((), ()))),
        TypeError,
        ["3", "4"],
    ),
    ("axis out of range", lambda: f32(2, 3).sum(axis=5), ValueError, ["axis 5", "2"]),
    ("float index", lambda: f32(3)[1.5], TypeError, ["float"]),
    ("string index", lambda: f32(3)["a"], TypeError, ["a"]),
    ("too many indices", lambda: f32(3)[0, 0], IndexError, ["2", "1"]),
    ("sine of integers", lambda: lax.sin(jnp.arange(3)), TypeError, ["sin", "int32"]),
    (
        "negative power of integers",
        lambda: lax.integer_pow(jnp.arange(3), -1),
        TypeError,
        ["negative"],
    ),
    (
        "clamp of different shapes",
        lambda: lax.clamp(f32(2), f32(3), f32(3)),
        TypeError,
        ["(2,)", "(3,)"],
    ),
    (
        "broadcast_in_dim",
        lambda: lax.broadcast_in_dim(f32(3), (2, 4), (1,)),
        (TypeError, ValueError),
        ["(2, 4)", "(3,)"],
    ),
    ("negative extent", lambda: jnp.zeros((-1, 2)), (TypeError, ValueError), ["-1"]),
    ("list operand", lambda: jnp.sin([1.0, 2.0]), TypeError, ["list"]),
    # traced values
    (
        "if on a traced value",
        lambda: tetrax.jit(branch_on_value)(3.0),
        errors.TracerBoolConversionError,
        ["lax.cond", "branch_on_value", "amount"],
    ),
    (
        "int of a traced value",
        lambda: tetrax.jit(int)(3),
        errors.ConcretizationTypeError,
        ["static_argnums"],
    ),
    (
        "float of a traced value",
        lambda: tetrax.jit(lambda x: float(x))(3.0),
        errors.ConcretizationTypeError,
        ["x"],
    ),
    (
        "range of a traced value",
        lambda: tetrax.jit(lambda n: sum(range(n)))(3),
        errors.TracerIntegerConversionError,
        ["n"],
    ),
    (
        "NumPy on a traced value",
        lambda: tetrax.jit(lambda x: np.sin(x))(3.0),
        errors.TracerArrayConversionError,
        ["x"],
    ),
    ("traced shape", lambda: tetrax.jit(lambda n: jnp.zeros(n))(3), TypeError, ["n"]),
    (
        "traced boolean mask",
        lambda: tetrax.jit(lambda x: x[x > 0])(f32(3)),
        errors.NonConcreteBooleanIndexError,
        ["where"],
    ),
    (
        "traced nonzero",
        lambda: tetrax.jit(jnp.nonzero)(f32(3)),
        errors.ConcretizationTypeError,
        ["size"],
    ),
    (
        "leaked tracer",
        leaked,
        errors.UnexpectedTracerError,
        ["float32[2,3]", "remember", "test_errors.py"],
    ),
    ("in-place assignment", assign, TypeError, [".at["]),
    # derivatives
    ("grad of an int", lambda: tetrax.grad(jnp.tanh)(3), TypeError, ["int32"]),
    (
        "grad of a vector function",
        lambda: tetrax.grad(jnp.sin)(f32(3)),
        TypeError,
        ["scalar-output", "(3,)"],
    ),
    (
        "grad of a tree-valued function",
        lambda: tetrax.grad(lambda x: (x, x))(1.0),
        TypeError,
        ["scalar-output"],
    ),
    (
        "grad of a complex function",
        lambda: tetrax.grad(lambda z: z * z)(1.0 + 1j),
        TypeError,
        ["holomorphic"],
    ),
    (
        "grad argnums out of range",
        lambda: tetrax.grad(lambda x: x, argnums=2)(1.0),
        ValueError,
        ["argnums", "1"],
    ),
    ("grad of no function", lambda: tetrax.grad(3.0), TypeError, ["3.0"]),
    (
        "has_aux without a pair",
        lambda: tetrax.grad(lambda x: x, has_aux=True)(1.0),
        TypeError,
        ["pair"],
    ),
    (
        "jvp tangent dtype",
        lambda: tetrax.jvp(jnp.sin, (f32(2),), (jnp.ones(2, int),)),
        TypeError,
        ["float32", "int32"],
    ),
    (
        "jvp tangent shape",
        lambda: tetrax.jvp(jnp.sin, (f32(2),), (f32(3),)),
        ValueError,
        ["(2,)", "(3,)"],
    ),
    ("jvp with bare arrays", lambda: tetrax.jvp(jnp.sin, 1.0, 1.0), TypeError, ["tuple"]),
    ("vjp cotangent tree", lambda: tetrax.vjp(jnp.sin, 1.0)[1]((1.0, 2.0)), ValueError, ["tree"]),
    (
        "vjp cotangent shape",
        lambda: tetrax.vjp(jnp.sin, f32(2))[1](f32(3)),
        ValueError,
        ["float32[3]", "float32[2]"],
    ),
    (
        "custom_jvp without a rule",
        lambda: tetrax.custom_jvp(jnp.sin)(1.0),
        AttributeError,
        ["defjvp"],
    ),
    (
        "custom_vjp without a rule",
        lambda: tetrax.custom_vjp(jnp.sin)(1.0),
        AttributeError,
        ["defvjp"],
    ),
    (
        "reverse mode through while_loop",
        lambda: tetrax.grad(lambda x: lax.while_loop(lambda c: c < 9, lambda c: c * x, x))(2.0),
        ValueError,
        ["while_loop", "max_steps"],
    ),
    # vmap
    (
        "vmap sizes",
        lambda: tetrax.vmap(lambda a, b: a + b)(f32(2), f32(3)),
        ValueError,
        ["size 2", "size 3", "argument a", "argument b"],
    ),
    ("vmap rank", lambda: tetrax.vmap(lambda a: a)(1.0), ValueError, ["axis 0", "argument a"]),
    (
        "vmap in_axes length",
        lambda: tetrax.vmap(lambda a: a, in_axes=(0, 0))(f32(2)),
        ValueError,
        ["in_axes"],
    ),
    (
        "vmap nothing mapped",
        lambda: tetrax.vmap(lambda a: a, in_axes=None)(f32(2)),
        ValueError,
        ["in_axes"],
    ),
    (
        "vmap out_axes None",
        lambda: tetrax.vmap(lambda a: a, out_axes=None)(f32(2)),
        ValueError,
        ["out_axes"],
    ),
    (
        "vmap in_axes tree",
        lambda: tetrax.vmap(lambda a: a, in_axes=({"x": 0},))({"y": f32(2)}),
        ValueError,
        ["in_axes"],
    ),
    ("unbound axis name", lambda: lax.psum(f32(2), "i"), NameError, ["i", "vmap"]),
    # jit
    (
        "unhashable static",
        lambda: tetrax.jit(lambda x, y: x, static_argnums=1)(1.0, [2]),
        ValueError,
        ["Non-hashable", "list"],
    ),
    (
        "jit returning a string",
        lambda: tetrax.jit(lambda x: {"name": "no"})(1.0),
        TypeError,
        ["str", "['name']"],
    ),
    (
        "jit of a string",
        lambda: tetrax.jit(lambda x, y: x)(1.0, {"k": "text"}),
        TypeError,
        ["y['k']", "static"],
    ),
    (
        "static_argnums out of range",
        lambda: tetrax.jit(lambda x: x, static_argnums=3),
        ValueError,
        ["static_argnums"],
    ),
    (
        "unknown static_argnames",
        lambda: tetrax.jit(lambda x: x, static_argnames="z"),
        ValueError,
        ["z"],
    ),
    ("donated buffer used again", donated_twice, RuntimeError, ["donate"]),
    (
        "unsortable dict keys",
        lambda: tetrax.jit(lambda d: d)({"a": 1.0, 2: 2.0}),
        (TypeError, ValueError),
        ["str", "int"],
    ),
    # control flow
    ("scan carry types", wrong_carry, TypeError, ["['b']", "float32[2]", "int32[2]"]),
    ("scan body result", lambda: lax.scan(lambda c, x: c, 0.0, f32(3)), TypeError, ["pair"]),
    (
        "scan lengths",
        lambda: lax.scan(lambda c, x: (c, x[0]), 0.0, (f32(3), f32(4))),
        ValueError,
        ["3", "4"],
    ),
    ("scan without length", lambda: lax.scan(lambda c, x: (c, c), 0.0), ValueError, ["length"]),
    (
        "while carry types",
        lambda: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1].sum()), (0, f32(3))),
        TypeError,
        ["[1]", "float32[3]", "float32[]"],
    ),
    (
        "while condition",
        lambda: lax.while_loop(lambda c: c, lambda c: c, f32(3)),
        TypeError,
        ["boolean scalar", "float32[3]"],
    ),
    (
        "cond predicate",
        lambda: lax.cond(f32(2) > 0, lambda: 1, lambda: 2),
        TypeError,
        ["scalar", "(2,)"],
    ),
    (
        "cond branch types",
        lambda: lax.cond(True, lambda x: x, lambda x: x.astype(int), f32(2)),
        TypeError,
        ["true_fun", "false_fun", "float32[2]", "int32[2]"],
    ),
    (
        "cond branch trees",
        lambda: lax.cond(True, lambda x: (x, x), lambda x: x, 1.0),
        TypeError,
        ["true_fun", "false_fun"],
    ),
    (
        "switch index",
        lambda: lax.switch(1.5, [lambda: 1, lambda: 2]),
        TypeError,
        ["integer", "1.5"],
    ),
    (
        "fori_loop bounds",
        lambda: lax.fori_loop(0, 2.5, lambda i, c: c, 0),
        TypeError,
        ["upper", "integer"],
    ),
    # callbacks
    ("an exception in a callback", callback_raises, LookupError, ["no such row"]),
    (
        "callback result shape",
        lambda: tetrax.pure_callback(lambda x: x[:1], f32(2), f32(2)),
        RuntimeError,
        ["(2,)", "(1,)"],
    ),
    ("debug.print format", lambda: tetrax.debug.print("{a} {b}", a=1), KeyError, ["b"]),
]


@pytest.mark.parametrize(
    ("run", "kind", "words"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_error(run, kind, words):
    with pytest.raises(kind) as caught:
        run()
    message = str(caught.value)
    for word in words:
        assert word in message, message
    assert caught.value.__cause__ is None or isinstance(
        caught.value, errors.TetraxError | TypeError
    )


def test_callback_error_keeps_its_own_traceback():
    with pytest.raises(LookupError) as caught:
        callback_raises()
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "fail" in names


def fails_inside(x):
    return jnp.dot(x, jnp.ones(4))  # the line that users want to see


WRAPPERS = {
    "jit": lambda f: tetrax.jit(f)(f32(3)),
    "grad": lambda f: tetrax.grad(f)(f32(3)),
    "vmap": lambda f: tetrax.vmap(f)(f32(2, 3)),
    "jvp": lambda f: tetrax.jvp(f, (f32(3),), (f32(3),)),
    "jit of grad": lambda f: tetrax.jit(tetrax.grad(f))(f32(3)),
    "scan": lambda f: lax.scan(lambda c, x: (c, f(x)), 0.0, f32(2, 3)),
    "cond": lambda f: lax.cond(True, f, f, f32(3)),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_the_last_frame_is_the_users(wrap):
    with pytest.raises(TypeError) as caught:
        wrap(fails_inside)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].filename == __file__ and frames[-1].name == "fails_inside"


def test_everything_is_shown_on_demand():
    tetrax.config.update("traceback_filtering", "off")
    try:
        with pytest.raises(TypeError) as caught:
            tetrax.jit(fails_inside)(f32(3))
    finally:
        tetrax.config.update("traceback_filtering", "auto")
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name != "fails_inside"
