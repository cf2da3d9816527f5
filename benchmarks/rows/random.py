"""Random numbers. Other libraries draw other numbers, so only their distribution is compared."""

from __future__ import annotations

import numpy as np
from benchmarks.row import Case, Row

_SEED = np.uint32(7)


def normal(n: int) -> Case:
    """Standard normal numbers."""
    return Case(
        program=lambda lib: lambda seed: lib.random.normal(lib.random.key(seed), (n,)),
        inputs=(_SEED,),
        numpy=lambda seed: np.random.default_rng(seed).standard_normal(n, np.float32),
        torch=lambda torch: lambda _: torch.randn(n),
        torch_inputs=lambda torch, seed: (int(seed),),
        bytes=4.0 * n,
        tolerance=10 / np.sqrt(n),  # sampling error
        compare=lambda x: np.array([1 + x.mean(), x.std()]),
    )


def bits(n: int) -> Case:
    """Random 32-bit words."""
    return Case(
        program=lambda lib: lambda seed: lib.random.bits(lib.random.key(seed), (n,)),
        inputs=(_SEED,),
        numpy=lambda seed: np.random.default_rng(seed).integers(0, 2**32, n, np.uint32),
        torch=lambda torch: lambda _: torch.randint(-(2**31), 2**31, (n,), dtype=torch.int32),
        torch_inputs=lambda torch, seed: (int(seed),),
        bytes=4.0 * n,
        tolerance=10 / np.sqrt(n),  # sampling error
        compare=lambda x: x.astype(np.uint32).mean(dtype=np.float64),
    )


def permutation(n: int) -> Case:
    """The numbers below n in random order."""
    return Case(
        program=lambda lib: lambda seed: lib.random.permutation(lib.random.key(seed), n),
        inputs=(_SEED,),
        numpy=lambda seed: np.random.default_rng(seed).permutation(n),
        torch=lambda torch: lambda _: torch.randperm(n),
        torch_inputs=lambda torch, seed: (int(seed),),
        bytes=4.0 * n,
        tolerance=0,
        compare=lambda x: np.sort(x),
    )


ROWS = (
    Row("normal_10m", "random", normal, {"n": 10_000_000}, {"n": 1000}),
    Row("bits_10m", "random", bits, {"n": 10_000_000}, {"n": 1000}),
    Row("permutation_1m", "random", permutation, {"n": 1_000_000}, {"n": 100}),
)
