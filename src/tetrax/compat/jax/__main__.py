"""`python -m tetrax.compat.jax script.py [args]`: run a JAX program on Tetrax."""

from __future__ import annotations

import os
import runpy
import sys

from tetrax.compat.jax import install
from tetrax.tracebacks import filter_uncaught

SHIM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shim")


def _inherit() -> None:
    """Make Python processes that the program starts see the stand-in too."""
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(SHIM))))
    paths = [SHIM, source, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m tetrax.compat.jax script.py [arguments] | -m module")
    install()
    _inherit()
    filter_uncaught()
    if sys.argv[1] == "-m":
        sys.argv = sys.argv[2:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        return
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
