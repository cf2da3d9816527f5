"""Runs StableHLO text with the XLA of the installed jaxlib, on its CPU client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax._src import xla_bridge
from jax._src.lib import xla_client
from jaxlib import _jax

import numpy as np


def execute(text: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compile the module `text` and run its `main` on `arguments`."""
    backend = xla_bridge.get_backend("cpu")
    device = backend.local_devices()[0]
    devices = _jax.DeviceList((device,))
    options = xla_client.CompileOptions()
    debug = options.executable_build_options.debug_options
    # What is tested is the text, not how fast XLA's code for it runs.
    debug.xla_backend_optimization_level = 0
    debug.xla_llvm_disable_expensive_passes = True
    compiled = backend.compile_and_load(text, devices, options)
    with jax.enable_x64(True):
        buffers = [jax.device_put(np.asarray(x), device) for x in arguments]
    results: Any = compiled.execute_sharded(buffers)
    return [np.asarray(row[0]) for row in results.disassemble_into_single_device_arrays()]
