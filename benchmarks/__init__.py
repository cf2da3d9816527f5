"""Measurements beside NumPy and JAX; run them with `scripts/bench`."""
