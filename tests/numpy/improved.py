"""Expressions for which JAX 0.10.2 raises, or is less right than NumPy."""

from __future__ import annotations

import re

# Each entry: a pattern of expressions, and what is better.
IMPROVED = [
    (r"jnp\.modf\(nan\)", "infinity has no fractional part; the sign of zero is kept (NumPy)"),
    (r"jnp\.spacing\(h\)", "the sign of the argument (NumPy)"),
    (r"jnp\.all\(c\)", "a number with a zero real part is not zero"),
    (r"jnp\.(nan)?median\(e2?(, axis=1)?\)", "the median of nothing is NaN"),
    (r"jnp\.argmin\(c\)", "complex numbers have NumPy's order"),
    (r"jnp\.(nan)?cum(sum|prod)\(f0, axis=0\)", "NumPy lets a scalar have axis 0"),
    (r"jnp\.kron\(b, b\)", "booleans multiply by `and`"),
    (r"jnp\.linalg\.\w+\((f|f1)(, .*)?\)", "one message says that the matrix must be square"),
    (r"jnp\.linalg\.solve\(m\.astype\('f2'\), .*", "half precision is solved in single"),
    (r"jnp\.fft\.(rfft|ihfft)\(h\)", "half precision is transformed in single"),
    (r"jnp\.logaddexp\.reduceat\(.*", "the result dtype is used from the start"),
    (r"jnp\.(copysign|heaviside)\(f1,k\)", "the same error as for every other function"),
    (r"jnp\.geomspace\(1, 8, 4, dtype=int\)", "rounding does not lose whole numbers (NumPy)"),
    (r"jnp\.dot\(w, k\)", "a weak integer takes the dtype of its partner"),
    (r"jnp\.percentile\(i1, 30, method='inverted_cdf'\)", "works in 64 bits too"),
    (r"jnp\.logical_\w+\.reduceat\(.*", "the result is boolean (NumPy)"),
    (r"jnp\.frexp\(jnp\.array\(\[0\.0, 1e-40.*", "subnormal numbers are not flushed to zero"),
]


def is_improved(expression: str) -> bool:
    """Tell whether an expression is known to be better here."""
    return any(re.fullmatch(pattern, expression) for pattern, _ in IMPROVED)
