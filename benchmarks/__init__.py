"""Measurements of Tetrax beside JAX, PyTorch and NumPy; run them with `scripts/bench`."""

import os

# OpenBLAS's workers spin for 2^26 cycles (30 ms and more) after a product, and whoever is timed
# next gets half a machine. With 2^20 they sleep before the next library's turn; between NumPy's
# own calls they are as awake as ever. It is read when NumPy is loaded, hence this place.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
