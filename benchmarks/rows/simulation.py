"""Simulations with chance and choice: fractals, spins, Monte Carlo, reinforcement learning."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.row import Case, Function, Row
from benchmarks.rows.common import Array, generator, normal, uniform

_SEED = np.uint32(3)


def mandelbrot(n: int, iterations: int) -> Case:
    """How long points of the complex plane take to escape."""
    real, imaginary = np.linspace(-2, 0.6, n), np.linspace(-1.3, 1.3, n)
    plane = (real[None, :] + 1j * imaginary[:, None]).astype(np.complex64)

    def step(xp: Any, z: Any, count: Any, c: Any) -> Any:
        inside = z.real * z.real + z.imag * z.imag <= 4
        return xp.where(inside, z * z + c, z), count + inside

    def program(lib: Any) -> Function:
        jnp = lib.numpy

        def run(c: Any) -> Any:
            start = (jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int32))
            body = lambda _, state: step(jnp, state[0], state[1], c)
            return lib.lax.fori_loop(0, iterations, body, start)[1]

        return run

    def loop(xp: Any) -> Function:
        def run(c: Any) -> Any:
            z, count = xp.zeros_like(c), xp.zeros(c.shape, dtype=xp.int32)
            for _ in range(iterations):
                z, count = step(xp, z, count, c)
            return count

        return run

    return Case(
        program=program,
        inputs=(plane,),
        numpy=loop(np),
        torch=loop,
        flops=10.0 * n * n * iterations,
        tolerance=1e-3,
        compare=lambda count: count.mean(),  # at the border single points differ
        torch_compile=False,  # a loop of many steps
    )


def ising(n: int, sweeps: int) -> Case:
    """Metropolis sweeps of a two-dimensional Ising model, one colour of the board at a time."""
    spins = np.where(uniform(n, n) < 0.8, 1, -1).astype(np.int32)
    colours = (np.indices((n, n)).sum(0) % 2).astype(bool)
    beta = 0.6  # cold: the magnetisation stays, whatever the random numbers

    def update(xp: Any, spins: Any, chosen: Any, chance: Any, roll: Function) -> Any:
        around = roll(spins, 1, 0) + roll(spins, -1, 0) + roll(spins, 1, 1) + roll(spins, -1, 1)
        flip = (chance < xp.exp(-2 * beta * (spins * around))) & chosen
        return xp.where(flip, -spins, spins)

    def program(lib: Any) -> Function:
        jnp = lib.numpy

        def run(seed: Any, spins: Any, colours: Any) -> Any:
            def sweep(spins: Any, key: Any) -> tuple[Any, None]:
                for chosen, own in zip((colours, ~colours), lib.random.split(key), strict=True):
                    chance = lib.random.uniform(own, (n, n))
                    spins = update(jnp, spins, chosen, chance, jnp.roll)
                return spins, None

            keys = lib.random.split(lib.random.key(seed), sweeps)
            return lib.lax.scan(sweep, spins, keys)[0]

        return run

    def loop(xp: Any, chance: Function) -> Function:
        def run(seed: Any, spins: Any, colours: Any) -> Any:
            for _ in range(sweeps):
                for chosen in (colours, ~colours):
                    spins = update(xp, spins, chosen, chance(), xp.roll)
            return spins

        return run

    source = generator()
    return Case(
        program=program,
        inputs=(_SEED, spins, colours),
        numpy=loop(np, lambda: source.random((n, n), np.float32)),
        torch=lambda torch: loop(torch, lambda: torch.rand(n, n)),
        torch_inputs=lambda torch, seed, spins, colours: (int(seed), spins, colours),
        tolerance=max(0.05, 20.0 / n),  # other random numbers
        compare=lambda spins: np.abs(spins.mean()),
        torch_compile=False,  # a loop of many steps
    )


def hmc(chains: int, width: int, observations: int, leaps: int) -> Case:
    """A step of Hamiltonian Monte Carlo on a logistic regression, for many chains at once."""
    data = normal(observations, width)
    truth = np.linspace(-1, 1, width).astype(np.float32)
    labels = (uniform(observations) < 1 / (1 + np.exp(-data @ truth))).astype(np.float32)
    start = np.tile(truth, (chains, 1))
    size = 0.02

    def leapfrog(gradient: Function, q: Any, p: Any) -> tuple[Any, Any]:
        p = p + 0.5 * size * gradient(q)
        for i in range(leaps):
            q = q + size * p
            p = p + (size if i + 1 < leaps else 0.5 * size) * gradient(q)
        return q, p

    def program(lib: Any) -> Function:
        jnp = lib.numpy

        def run(seed: Any, start: Any, data: Any, labels: Any) -> Any:
            def density(q: Any) -> Any:
                scores = data @ q
                return jnp.sum(labels * scores - jnp.logaddexp(0.0, scores)) - 0.5 * jnp.sum(q**2)

            def step(key: Any, q: Any) -> Any:
                pull, luck = lib.random.split(key)
                p = lib.random.normal(pull, (width,))
                new_q, new_p = leapfrog(lib.grad(density), q, p)
                gain = density(new_q) - density(q) + 0.5 * (jnp.sum(p**2) - jnp.sum(new_p**2))
                accept = jnp.log(lib.random.uniform(luck)) < gain
                return jnp.where(accept, new_q, q)

            keys = lib.random.split(lib.random.key(seed), chains)
            return lib.vmap(step)(keys, start)

        return run

    def batched(xp: Any, softplus: Function, normals: Function, uniforms: Function) -> Function:
        def run(seed: Any, start: Any, data: Any, labels: Any) -> Any:
            def density(q: Any) -> Any:
                scores = q @ data.T
                return (labels * scores - softplus(scores)).sum(1) - 0.5 * (q**2).sum(1)

            gradient = lambda q: (labels - 1 / (1 + xp.exp(-(q @ data.T)))) @ data - q
            p = normals()
            new_q, new_p = leapfrog(gradient, start, p)
            gain = density(new_q) - density(start) + 0.5 * ((p**2).sum(1) - (new_p**2).sum(1))
            return xp.where((xp.log(uniforms()) < gain)[:, None], new_q, start)

        return run

    source = generator()
    return Case(
        program=program,
        inputs=(_SEED, start, data, labels),
        numpy=batched(
            np,
            lambda x: np.logaddexp(np.float32(0), x),
            lambda: source.standard_normal((chains, width), np.float32),
            lambda: source.random(chains, np.float32),
        ),
        torch=lambda torch: batched(
            torch,
            torch.nn.functional.softplus,
            lambda: torch.randn(chains, width),
            lambda: torch.rand(chains),
        ),
        torch_inputs=lambda torch, seed, *tensors: (int(seed), *tensors),
        flops=(leaps + 3) * 4.0 * chains * width * observations,
        tolerance=0.2,  # other random numbers
        compare=lambda q: q.mean(0),
    )


# --------------------------------------------------------------------------- cart and pole


def _cartpole_step(xp: Any, state: Any, policy: Any) -> tuple[Any, Any]:
    """A step of the classic cart-pole with a linear policy; falls start again near upright."""
    x, speed, angle, spin = (state[..., i] for i in range(4))
    push = xp.where((state * policy).sum(-1) > 0, 10.0, -10.0)
    cosine, sine = xp.cos(angle), xp.sin(angle)
    inner = (push + 0.05 * spin * spin * sine) / 1.1
    turn = (9.8 * sine - cosine * inner) / (0.5 * (4 / 3 - 0.1 * cosine * cosine / 1.1))
    pull = inner - 0.05 * turn * cosine / 1.1
    moved = xp.stack(
        [x + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * spin, spin + 0.02 * turn], -1
    )
    fallen = (abs(moved[..., 0]) > 2.4) | (abs(moved[..., 2]) > 0.2095)
    return xp.where(fallen[..., None], 0.03, moved), fallen


def cartpole(environments: int, steps: int) -> Case:
    """How often poles fall: vmap over environments of a scan over steps."""
    start = (0.05 * generator().uniform(-1, 1, (environments, 4))).astype(np.float32)
    policy = np.array([0.3, 0.2, 1.0, 0.1], np.float32)  # not a good one: poles fall

    def program(lib: Any) -> Function:
        def episode(start: Any, policy: Any) -> Any:
            step = lambda state, _: _cartpole_step(lib.numpy, state, policy)
            return lib.numpy.sum(lib.lax.scan(step, start, None, length=steps)[1])

        return lib.vmap(episode, in_axes=(0, None))

    def loop(xp: Any) -> Function:
        def run(state: Any, policy: Any) -> Any:
            falls = 0
            for _ in range(steps):
                state, fallen = _cartpole_step(xp, state, policy)
                falls = falls + fallen
            return falls

        return run

    return Case(
        program=program,
        inputs=(start, policy),
        numpy=loop(np),
        torch=loop,
        tolerance=2e-2,
        compare=lambda falls: falls.mean(),  # single poles are chaotic
        torch_compile=False,  # a loop of many steps
        plain=(_PLAIN / environments, lambda start, policy: _plain(start[:_PLAIN], policy, steps)),
    )


_PLAIN = 4  # environments that the plain simulator runs


def _plain(starts: Array, policy: Array, steps: int) -> list[int]:
    """The simulator as it is usually written: one environment and one step at a time."""
    falls = []
    for state in starts:
        fallen = 0
        for _ in range(steps):
            x, speed, angle, spin = state
            push = 10.0 if np.dot(state, policy) > 0 else -10.0
            cosine, sine = np.cos(angle), np.sin(angle)
            inner = (push + 0.05 * spin**2 * sine) / 1.1
            turn = (9.8 * sine - cosine * inner) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
            pull = inner - 0.05 * turn * cosine / 1.1
            moved = (x + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * spin, spin + 0.02 * turn)
            state = np.array(moved, np.float32)
            if abs(state[0]) > 2.4 or abs(state[2]) > 0.2095:
                fallen += 1
                state = np.full(4, 0.03, np.float32)
        falls.append(fallen)
    return falls


_FAMILY = "science"

ROWS = (
    Row(
        "mandelbrot",
        _FAMILY,
        mandelbrot,
        {"n": 1000, "iterations": 100},
        {"n": 40, "iterations": 10},
    ),
    Row("ising_512", _FAMILY, ising, {"n": 512, "sweeps": 20}, {"n": 40, "sweeps": 3}),
    Row(
        "hmc_64_chains",
        _FAMILY,
        hmc,
        {"chains": 64, "width": 20, "observations": 500, "leaps": 10},
        {"chains": 40, "width": 3, "observations": 40, "leaps": 2},
    ),
    Row(
        "cartpole_1024x1000",
        _FAMILY,
        cartpole,
        {"environments": 1024, "steps": 1000},
        {"environments": 6, "steps": 20},
    ),
)
