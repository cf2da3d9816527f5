"""Random numbers as pure functions of a key: `tetrax.random`.

A key is made once from a seed and split before each use; the same key gives the same numbers, on
every machine and under every transformation. The streams are JAX's.
"""

from __future__ import annotations

from tetrax.random._choice import categorical, choice, gumbel, permutation
from tetrax.random._continuous import (
    cauchy,
    exponential,
    geometric,
    laplace,
    logistic,
    pareto,
    triangular,
    weibull_min,
)
from tetrax.random._counts import binomial, multinomial, poisson
from tetrax.random._gamma import (
    ball,
    beta,
    chisquare,
    dirichlet,
    f,
    gamma,
    generalized_normal,
    loggamma,
    t,
)
from tetrax.random._gamma_rule import random_gamma_p
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
from tetrax.random._matrices import multivariate_normal, orthogonal
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
    "ball",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "clone",
    "dirichlet",
    "double_sided_maxwell",
    "exponential",
    "f",
    "fold_in",
    "gamma",
    "generalized_normal",
    "geometric",
    "gumbel",
    "key",
    "key_data",
    "key_dtype",
    "key_impl",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multinomial",
    "multivariate_normal",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "random_gamma_p",
    "rayleigh",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull_min",
    "wrap_key_data",
]
