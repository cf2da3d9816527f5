"""Higher derivatives, and the sensitivities of a differential equation."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.row import Case, Function, Row
from benchmarks.rows.common import normals, uniform


def third_derivative(n: int) -> Case:
    """All third derivatives of a small network."""
    weights, x = normals((n, n), (n,), scale=0.3)

    def energy(tanh: Function, x: Any, weights: Any) -> Any:
        return (tanh(weights @ tanh(weights @ x)) ** 2).sum()

    def program(lib: Any) -> Function:
        function = lambda x, weights: energy(lib.numpy.tanh, x, weights)
        return lib.jacfwd(lib.jacfwd(lib.jacrev(function)))

    def torch_program(torch: Any) -> Function:
        function = lambda x, weights: energy(torch.tanh, x, weights)
        func = torch.func
        return func.jacfwd(func.jacfwd(func.jacrev(function)))

    return Case(
        program=program,
        inputs=(x, weights),
        torch=torch_program,
        # interrupted after its time, it leaves PyTorch in inference mode
        torch_compile=False,
        tolerance=1e-3,
    )


def hessian(n: int) -> Case:
    """The Hessian of Rosenbrock's function."""
    x = uniform(n, low=-1, high=1)

    def rosenbrock(x: Any) -> Any:
        return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    def in_numpy(x: Any) -> Any:
        found = np.diag(-400 * x[:-1], 1) + np.diag(-400 * x[:-1], -1)
        i = np.arange(n - 1)
        found[i, i] += 1200 * x[:-1] ** 2 - 400 * x[1:] + 2
        found[i + 1, i + 1] += 200
        return found

    return Case(
        program=lambda lib: lib.hessian(rosenbrock),
        inputs=(x,),
        numpy=in_numpy,  # derived by hand
        torch=lambda torch: torch.func.hessian(rosenbrock),
        bytes=4.0 * n * n,
        tolerance=1e-3,
    )


# --------------------------------------------------------------------------- Dormand and Prince

_STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


def _combine(weights: tuple[float, ...], slopes: list[Any]) -> Any:
    total = weights[0] * slopes[0]
    for weight, slope in zip(weights[1:], slopes[1:], strict=True):
        if weight:
            total = total + weight * slope
    return total


def _predator_prey(y: Any, theta: Any, stack: Function) -> Any:
    return stack(
        [theta[0] * y[0] - theta[1] * y[0] * y[1], theta[3] * y[0] * y[1] - theta[2] * y[1]]
    )


def dopri5(end: float) -> Case:
    """The end of an adaptive integration and its derivatives by the parameters, in forward mode."""
    theta = np.array([1.5, 1.0, 3.0, 1.0], np.float32)
    start = np.array([1.0, 1.0], np.float32)

    def attempt(slope: Function, y: Any, h: Any) -> tuple[Any, Any]:
        """A step and the estimate of its error."""
        slopes = [slope(y)]
        moved = y
        for weights in _STAGES:
            moved = y + h * _combine(weights, slopes)
            slopes.append(slope(moved))
        return moved, h * _combine(_ERROR, slopes)

    def program(lib: Any) -> Function:
        jnp = lib.numpy

        def solve(theta: Any, start: Any) -> Any:
            slope = lambda y: _predator_prey(y, theta, jnp.stack)

            def step(state: Any) -> Any:
                t, y, h = state
                h = jnp.minimum(h, end - t)
                moved, error = attempt(slope, y, h)
                size = jnp.sqrt(jnp.mean((error / (1e-5 + 1e-4 * jnp.abs(moved))) ** 2))
                good = size <= 1
                factor = jnp.clip(0.9 * jnp.maximum(size, 1e-6) ** -0.2, 0.2, 5.0)
                # the choice of steps is not differentiated
                next_h = lib.lax.stop_gradient(h * factor)
                return jnp.where(good, t + h, t), jnp.where(good, moved, y), next_h

            first = (jnp.float32(0), start, jnp.float32(0.01))
            return lib.lax.while_loop(lambda state: state[0] < end - 1e-4, step, first)[1]

        return lambda theta, start: (solve(theta, start), lib.jacfwd(solve)(theta, start))

    def in_numpy(theta: Any, start: Any) -> Any:
        """Parameters nudged one by one, as those do who have no derivatives."""
        base = _numpy_dopri5(attempt, theta.astype(np.float64), start, end)
        columns = []
        for i in range(4):
            nudged = theta.astype(np.float64)
            nudged[i] += 1e-4
            columns.append((_numpy_dopri5(attempt, nudged, start, end) - base) / 1e-4)
        return base, np.stack(columns, 1)

    return Case(
        program=program,
        inputs=(theta, start),
        numpy=in_numpy,
        tolerance=2e-2,  # other steps, and differences instead of derivatives
    )


def _numpy_dopri5(attempt: Function, theta: Any, y: Any, end: float) -> Any:
    y, t, h = y.astype(np.float64), 0.0, 0.01
    slope = lambda y: _predator_prey(y, theta, np.array)
    while t < end - 1e-4:
        h = min(h, end - t)
        moved, error = attempt(slope, y, h)
        size = np.sqrt(np.mean((error / (1e-5 + 1e-4 * np.abs(moved))) ** 2))
        if size <= 1:
            t, y = t + h, moved
        h *= min(5.0, max(0.2, 0.9 * max(size, 1e-6) ** -0.2))
    return y


_FAMILY = "science"

ROWS = (
    Row("third_derivative_20", _FAMILY, third_derivative, {"n": 20}, {"n": 3}),
    Row("hessian_50", _FAMILY, hessian, {"n": 50}, {"n": 5}),
    Row("dopri5_gradient", _FAMILY, dopri5, {"end": 10.0}, {"end": 1.0}),
)
