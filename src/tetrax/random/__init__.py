"""Random numbers as pure functions of a key: `tetrax.random`.

A key is made once from a seed and split before each use; the same key gives the same numbers, on
every machine and under every transformation. The streams are JAX's.
"""

from __future__ import annotations

from tetrax.random._choice import categorical, choice, gumbel, permutation
from tetrax.random._keys import (
    PRNGKey,
    clone,
    fold_in,
    key,
    key_data,
    key_dtype,
    key_impl,
    split,
    wrap_key_data,
)
from tetrax.random._normal import (
    double_sided_maxwell,
    lognormal,
    maxwell,
    normal,
    rayleigh,
    truncated_normal,
    wald,
)
from tetrax.random._uniform import bernoulli, bits, rademacher, randint, uniform

__all__ = [
    "PRNGKey",
    "bernoulli",
    "bits",
    "categorical",
    "choice",
    "clone",
    "double_sided_maxwell",
    "fold_in",
    "gumbel",
    "key",
    "key_data",
    "key_dtype",
    "key_impl",
    "lognormal",
    "maxwell",
    "normal",
    "permutation",
    "rademacher",
    "randint",
    "rayleigh",
    "split",
    "truncated_normal",
    "uniform",
    "wald",
    "wrap_key_data",
]
