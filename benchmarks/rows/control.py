"""Loops and branches: chaotic maps, recurrent networks and their gradients, filters, scans."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.row import Case, Function, Row
from benchmarks.rows.common import Array, generator, integers, normals, uniform

_CHAOS = "chaotic: libraries that round differently end elsewhere"


def lorenz(steps: int) -> Case:
    """Euler steps of the Lorenz system in a scan."""

    def move(x: Any, y: Any, z: Any) -> Any:
        return (
            x + 0.001 * (10 * (y - x)),
            y + 0.001 * (x * (28 - z) - y),
            z + 0.001 * (x * y - 8 / 3 * z),
        )

    def program(lib: Any) -> Function:
        def run(start: Any) -> Any:
            step = lambda state, _: (move(*state), None)
            state, _ = lib.lax.scan(step, (start[0], start[1], start[2]), None, length=steps)
            return lib.numpy.stack(state)

        return run

    def in_numpy(start: Any) -> Any:
        state = tuple(float(v) for v in start)
        for _ in range(steps):
            state = move(*state)
        return np.array(state, np.float32)

    return Case(
        program=program,
        inputs=(np.array([1.0, 0.5, 0.25], np.float32),),
        numpy=in_numpy,
        unchecked=_CHAOS if steps > 1000 else "",
    )


def logistic(steps: int) -> Case:
    """The logistic map in a while_loop."""

    def program(lib: Any) -> Function:
        def run(x: Any) -> Any:
            more = lambda state: state[0] < steps
            step = lambda state: (state[0] + 1, 3.7 * state[1] * (1 - state[1]))
            return lib.lax.while_loop(more, step, (0, x))[1]

        return run

    def in_numpy(x: Any) -> Any:
        x, i = float(x), 0
        while i < steps:
            i, x = i + 1, 3.7 * x * (1 - x)
        return np.float32(x)

    return Case(
        program=program,
        inputs=(np.float32(0.4),),
        numpy=in_numpy,
        unchecked=_CHAOS if steps > 30 else "",
    )


# --------------------------------------------------------------------------- recurrent networks


def _rnn_cell(jnp: Any, sigmoid: Function, x: Any, h: Any, w: Any) -> Any:
    return jnp.tanh(x @ w["x"].T + h @ w["h"].T + w["bx"] + w["bh"])


def _gru_cell(jnp: Any, sigmoid: Function, x: Any, h: Any, w: Any) -> Any:
    xr, xz, xn = jnp.split(x @ w["x"].T + w["bx"], 3, axis=-1)
    hr, hz, hn = jnp.split(h @ w["h"].T + w["bh"], 3, axis=-1)
    keep = sigmoid(xz + hz)
    return (1 - keep) * jnp.tanh(xn + sigmoid(xr + hr) * hn) + keep * h


def _lstm_cell(jnp: Any, sigmoid: Function, x: Any, state: Any, w: Any) -> Any:
    h, c = state
    gates = x @ w["x"].T + w["bx"] + h @ w["h"].T + w["bh"]
    write, forget, new, read = jnp.split(gates, 4, axis=-1)
    c = sigmoid(forget) * c + sigmoid(write) * jnp.tanh(new)
    return sigmoid(read) * jnp.tanh(c), c


_CELLS = {"rnn": (_rnn_cell, 1), "gru": (_gru_cell, 3), "lstm": (_lstm_cell, 4)}


def recurrent_gradient(kind: str, steps: int, batch: int, width: int) -> Case:
    """The gradient of a recurrent network's parameters through all its steps."""
    cell, gates = _CELLS[kind]
    scale = 1 / np.sqrt(width)
    shapes = (gates * width, width), (gates * width, width), (gates * width,), (gates * width,)
    weights = dict(zip(("x", "h", "bx", "bh"), normals(*shapes, scale=scale), strict=True))
    (inputs,) = normals((steps, batch, width))

    def program(lib: Any) -> Function:
        jnp = lib.numpy

        def loss(weights: Any, inputs: Any) -> Any:
            zeros = jnp.zeros((batch, width))

            def step(state: Any, x: Any) -> Any:
                state = cell(jnp, lib.nn.sigmoid, x, state, weights)
                return state, state[0] if kind == "lstm" else state

            start = (zeros, zeros) if kind == "lstm" else zeros
            _, hidden = lib.lax.scan(step, start, inputs)
            return jnp.mean(hidden**2)

        return lib.grad(loss)

    def torch_program(torch: Any) -> Function:
        run = {"rnn": torch.rnn_tanh, "gru": torch.gru, "lstm": torch.lstm}[kind]

        def gradient(weights: Any, inputs: Any) -> Any:
            leaves = {name: w.detach().requires_grad_() for name, w in weights.items()}
            zeros = torch.zeros(1, batch, width)
            start = (zeros, zeros) if kind == "lstm" else zeros
            parameters = [leaves[name] for name in ("x", "h", "bx", "bh")]
            # bias, layers, dropout, training, bidirectional, batch first
            hidden = run(inputs, start, parameters, True, 1, 0.0, True, False, False)[0]
            found = torch.autograd.grad((hidden**2).mean(), list(leaves.values()))
            return dict(zip(leaves, found, strict=True))

        return gradient

    # forward, and twice as much backward
    flops = 3 * 2.0 * steps * batch * 2 * gates * width * width
    return Case(
        program=program,
        inputs=(weights, inputs),
        torch=torch_program,
        flops=flops,
        tolerance=1e-2,
        torch_compile=False,  # its steps are one library call
    )


# --------------------------------------------------------------------------- filters


def kalman(steps: int) -> Case:
    """A Kalman filter of four states and two observations."""
    move = np.eye(4, dtype=np.float32) + 0.1 * np.eye(4, k=2, dtype=np.float32)
    look = np.eye(2, 4, dtype=np.float32)
    observed = np.cumsum(generator().standard_normal((steps, 2)), axis=0).astype(np.float32)

    def step(linalg: Any, eye: Function, state: Any, seen: Any, move: Any, look: Any) -> Any:
        mean, cov = state
        mean, cov = move @ mean, move @ cov @ move.T + 0.01 * eye(4)
        spread = look @ cov @ look.T + 0.5 * eye(2)
        gain = cov @ look.T @ linalg.inv(spread)
        mean = mean + gain @ (seen - look @ mean)
        return mean, cov - gain @ look @ cov

    def program(lib: Any) -> Function:
        jnp = lib.numpy

        def run(observed: Any, move: Any, look: Any) -> Any:
            def body(state: Any, seen: Any) -> Any:
                state = step(jnp.linalg, jnp.eye, state, seen, move, look)
                return state, state[0]

            return lib.lax.scan(body, (jnp.zeros(4), jnp.eye(4)), observed)[1]

        return run

    def loop(linalg: Any, eye: Function, stack: Function, zeros: Any) -> Function:
        def run(observed: Any, move: Any, look: Any) -> Any:
            mean, cov, means = zeros, eye(4), []
            for seen in observed:
                mean, cov = step(linalg, eye, (mean, cov), seen, move, look)
                means.append(mean)
            return stack(means)

        return run

    return Case(
        program=program,
        inputs=(observed, move, look),
        numpy=loop(np.linalg, lambda n: np.eye(n, dtype=np.float32), np.stack, np.zeros(4, "f4")),
        torch=lambda torch: loop(torch.linalg, torch.eye, torch.stack, torch.zeros(4)),
        tolerance=1e-3,
        torch_compile=False,  # a loop of many steps
    )


def hmm_forward(steps: int, states: int, symbols: int) -> Case:
    """The forward algorithm of a hidden Markov model, in logarithms."""
    moves = np.log(uniform(states, states) + 0.1)
    emits = np.log(uniform(states, symbols) + 0.1)
    observed = integers(steps, below=symbols)

    def program(lib: Any) -> Function:
        jnp = lib.numpy

        def run(moves: Any, emits: Any, observed: Any) -> Any:
            def step(alpha: Any, seen: Any) -> Any:
                alpha = lib.nn.logsumexp(alpha[:, None] + moves, axis=0) + emits[:, seen]
                return alpha, None

            alpha, _ = lib.lax.scan(step, jnp.zeros(states), observed)
            return lib.nn.logsumexp(alpha)

        return run

    def in_numpy(moves: Any, emits: Any, observed: Any) -> Any:
        alpha = np.zeros(states, np.float32)
        for seen in observed:
            alpha = _numpy_logsumexp(alpha[:, None] + moves) + emits[:, seen]
        return _numpy_logsumexp(alpha)

    def torch_program(torch: Any) -> Function:
        def run(moves: Any, emits: Any, observed: Any) -> Any:
            alpha = torch.zeros(states)
            for seen in observed:
                alpha = torch.logsumexp(alpha[:, None] + moves, 0) + emits[:, seen]
            return torch.logsumexp(alpha, 0)

        return run

    return Case(
        program=program,
        inputs=(moves, emits, observed),
        numpy=in_numpy,
        torch=torch_program,
        tolerance=1e-3,
        torch_compile=False,  # a loop of many steps
    )


def _numpy_logsumexp(x: Array) -> Array:
    top = x.max(0)
    return np.log(np.exp(x - top).sum(0)) + top


def associative_scan(n: int) -> Case:
    """A linear recurrence h = a h + b as an associative scan."""
    a, b = uniform(n, low=0.5, high=0.99), uniform(n)[::-1].copy()

    def program(lib: Any) -> Function:
        combine = lambda left, right: (left[0] * right[0], left[1] * right[0] + right[1])
        return lambda a, b: lib.lax.associative_scan(combine, (a, b))[1]

    def in_numpy(a: Any, b: Any) -> Any:
        h, found = 0.0, []
        for x, y in zip(a.tolist(), b.tolist(), strict=True):
            h = x * h + y
            found.append(h)
        return np.array(found, np.float32)

    return Case(program=program, inputs=(a, b), numpy=in_numpy, bytes=12.0 * n)


_FAMILY = "control"
_LONG = {"steps": 1000, "batch": 32, "width": 64}
_SHORT = {"steps": 5, "batch": 3, "width": 4}

ROWS = (
    Row("lorenz_100k", _FAMILY, lorenz, {"steps": 100_000}, {"steps": 50}),
    Row("logistic_while_1m", _FAMILY, logistic, {"steps": 1_000_000}, {"steps": 6}),
    *(
        Row(
            f"{kind}_gradient",
            _FAMILY,
            recurrent_gradient,
            {"kind": kind, **_LONG},
            {"kind": kind, **_SHORT},
        )
        for kind in _CELLS
    ),
    Row("kalman_1000", _FAMILY, kalman, {"steps": 1000}, {"steps": 10}),
    Row(
        "hmm_forward_1000",
        _FAMILY,
        hmm_forward,
        {"steps": 1000, "states": 64, "symbols": 32},
        {"steps": 6, "states": 5, "symbols": 3},
    ),
    Row("associative_scan_1m", _FAMILY, associative_scan, {"n": 1_000_000}, {"n": 100}),
)
