"""On the path of child processes: the first `import jax` puts the stand-in in its place."""

from __future__ import annotations

import importlib
import sys

from tetrax.compat.jax import install

del sys.modules["jax"]
install()
importlib.import_module("jax")
