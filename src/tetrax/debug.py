"""Looking at values inside transformed functions."""

from __future__ import annotations

from tetrax.higher_order.callbacks import debug_callback as callback
from tetrax.higher_order.callbacks import debug_print as print

__all__ = ["callback", "print"]
