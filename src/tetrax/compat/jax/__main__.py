"""`python -m tetrax.compat.jax script.py [args]`: run a JAX program on Tetrax."""

from __future__ import annotations

import runpy
import sys

from tetrax.compat.jax import install


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m tetrax.compat.jax script.py [arguments] | -m module")
    install()
    if sys.argv[1] == "-m":
        sys.argv = sys.argv[2:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        return
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
