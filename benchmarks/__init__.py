"""Measurements of Tetrax beside JAX, PyTorch and NumPy; run them with `scripts/bench`."""
