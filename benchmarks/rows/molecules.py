"""Particles: Lennard-Jones fluids, molecular dynamics, gravity."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.row import Case, Function, Row
from benchmarks.rows.common import Array, generator, torch_gradient


def lattice(n: int, spacing: float = 1.2) -> Array:
    """Positions near a cubic lattice, so that no two particles overlap."""
    side = int(np.ceil(n ** (1 / 3)))
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)[:n]
    return (spacing * grid + 0.05 * generator().standard_normal((n, 3))).astype(np.float32)


def _all_pairs_energy(lib: Any, x: Any) -> Any:
    """Lennard-Jones energy of all pairs, in the functions of any array library."""
    n = x.shape[0]
    difference = x[:, None, :] - x[None, :, :]
    squared = (difference**2).sum(-1) + 1e6 * lib.eye(n)  # nobody meets himself
    sixth = (1 / squared) ** 3
    return 2.0 * (sixth * sixth - sixth).sum()


def _numpy_all_pairs(x: Array) -> tuple[Any, Array]:
    """Energy and forces written out by hand."""
    difference = x[:, None, :] - x[None, :, :]
    squared = (difference**2).sum(-1) + 1e6 * np.eye(len(x), dtype=np.float32)
    inverse = 1 / squared
    sixth = inverse**3
    strength = (48 * sixth * sixth - 24 * sixth) * inverse
    return 2 * (sixth * sixth - sixth).sum(), -(strength[..., None] * difference).sum(1)


def lennard_jones(n: int) -> Case:
    """Energy and its gradient, all pairs."""

    def torch_program(torch: Any) -> Function:
        def both(x: Any) -> Any:
            x = x.detach().requires_grad_()
            energy = _all_pairs_energy(torch, x)
            return energy, torch.autograd.grad(energy, x)[0]

        return both

    return Case(
        program=lambda lib: lib.value_and_grad(lambda x: _all_pairs_energy(lib.numpy, x)),
        inputs=(lattice(n),),
        numpy=_numpy_all_pairs,
        torch=torch_program,
        flops=35.0 * n * n,
        tolerance=1e-3,
    )


# --------------------------------------------------------------------------- neighbour lists


def _neighbours(x: Array, count: int) -> Array:
    """The nearest particles of each."""
    nearest = np.empty((len(x), count), np.int32)
    for i, position in enumerate(x):
        squared = ((x - position) ** 2).sum(-1)
        squared[i] = np.inf
        nearest[i] = np.argpartition(squared, count)[:count]
    return nearest


def _neighbour_energy(x: Any, others: Any, gathered: Any) -> Any:
    difference = x[:, None, :] - gathered
    squared = (difference**2).sum(-1)
    near = squared < 6.25
    sixth = (1 / squared) ** 3
    return 2.0 * ((sixth * sixth - sixth) * near).sum()


def lennard_jones_neighbours(n: int, count: int) -> Case:
    """Energy and its gradient over neighbour lists, with a cut-off."""
    x = lattice(n)
    others = _neighbours(x, count)

    def program(lib: Any) -> Function:
        return lib.value_and_grad(lambda x, others: _neighbour_energy(x, others, x[others]))

    def torch_program(torch: Any) -> Function:
        def both(x: Any, others: Any) -> Any:
            x = x.detach().requires_grad_()
            energy = _neighbour_energy(x, others, x[others])
            return energy, torch.autograd.grad(energy, x)[0]

        return both

    def in_numpy(x: Any, others: Any) -> Any:
        difference = x[:, None, :] - x[others]
        squared = (difference**2).sum(-1)
        inverse = 1 / squared
        sixth = inverse**3 * (squared < 6.25)
        energy = 2 * (sixth * inverse**3 - sixth).sum()
        pull = ((24 * sixth * inverse**3 - 12 * sixth) * inverse)[..., None] * difference
        gradient = -pull.sum(1)
        np.add.at(gradient, others, pull)
        return energy, gradient

    return Case(
        program=program,
        inputs=(x, others),
        numpy=in_numpy,
        torch=torch_program,
        torch_inputs=lambda torch, x, others: (x, others.long()),
        flops=35.0 * n * count,
        tolerance=1e-3,
    )


# --------------------------------------------------------------------------- trajectories


def verlet(n: int, steps: int) -> Case:
    """Velocity-Verlet steps of a Lennard-Jones cluster in a scan."""
    x, v = lattice(n), 0.1 * generator().standard_normal((n, 3)).astype(np.float32)
    dt = 0.001

    def program(lib: Any) -> Function:
        force = lib.grad(lambda x: -_all_pairs_energy(lib.numpy, x))

        def run(x: Any, v: Any) -> Any:
            def step(state: Any, _: None) -> tuple[Any, None]:
                x, v, f = state
                v = v + 0.5 * dt * f
                x = x + dt * v
                f = force(x)
                return (x, v + 0.5 * dt * f, f), None

            (x, v, _), _ = lib.lax.scan(step, (x, v, force(x)), None, length=steps)
            return x, v

        return run

    def loop(force: Function) -> Function:
        def run(x: Any, v: Any) -> Any:
            f = force(x)
            for _ in range(steps):
                v = v + 0.5 * dt * f
                x = x + dt * v
                f = force(x)
                v = v + 0.5 * dt * f
            return x, v

        return run

    return Case(
        program=program,
        inputs=(x, v),
        numpy=loop(lambda x: -_numpy_all_pairs(x)[1]),
        torch=lambda torch: loop(
            lambda x: torch_gradient(torch, lambda x: -_all_pairs_energy(torch, x), x)[0]
        ),
        flops=35.0 * n * n * steps,
        tolerance=1e-2,  # rounding errors grow along a trajectory
        torch_compile=False,  # a loop of many steps
    )


def n_body(n: int, steps: int) -> Case:
    """Leapfrog steps of gravitating bodies."""
    x, v = generator().standard_normal((2, n, 3)).astype(np.float32)
    mass = np.full(n, 1 / n, np.float32)
    dt = 0.01

    def acceleration(x: Any, mass: Any) -> Any:
        difference = x[None, :, :] - x[:, None, :]
        squared = (difference**2).sum(-1) + 0.01
        return ((mass / squared**1.5)[..., None] * difference).sum(1)

    def step(x: Any, v: Any, mass: Any) -> Any:
        v = v + dt * acceleration(x, mass)
        return x + dt * v, v

    def program(lib: Any) -> Function:
        def run(x: Any, v: Any, mass: Any) -> Any:
            body = lambda _, state: step(state[0], state[1], mass)
            return lib.lax.fori_loop(0, steps, body, (x, v))

        return run

    def loop(x: Any, v: Any, mass: Any) -> Any:
        for _ in range(steps):
            x, v = step(x, v, mass)
        return x, v

    return Case(
        program=program,
        inputs=(x, v, mass),
        numpy=loop,
        torch=lambda torch: loop,
        flops=20.0 * n * n * steps,
        tolerance=1e-3,
    )


_FAMILY = "science"

ROWS = (
    Row("lennard_jones_256", _FAMILY, lennard_jones, {"n": 256}, {"n": 8}),
    Row(
        "lennard_jones_neighbours_4096",
        _FAMILY,
        lennard_jones_neighbours,
        {"n": 4096, "count": 64},
        {"n": 27, "count": 5},
    ),
    Row("verlet_1000", _FAMILY, verlet, {"n": 64, "steps": 1000}, {"n": 8, "steps": 4}),
    Row("n_body_1000", _FAMILY, n_body, {"n": 1000, "steps": 10}, {"n": 9, "steps": 2}),
)
