"""The stand-in for `jax`: in this process `import jax` means Tetrax.

    import tetrax.compat.jax
    tetrax.compat.jax.install()
    import jax.numpy as jnp

or, without touching a script, `python -m tetrax.compat.jax script.py`.
"""

from __future__ import annotations

from tetrax.compat.jax._finder import install, installed, uninstall

__all__ = ["install", "installed", "uninstall"]
