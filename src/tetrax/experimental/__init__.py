"""What JAX keeps under `jax.experimental` and programs rely on."""

from __future__ import annotations

from tetrax.config import enable_x64
from tetrax.experimental import checkify
from tetrax.higher_order.callbacks import io_callback

__all__ = ["checkify", "enable_x64", "io_callback"]
