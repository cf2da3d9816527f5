"""Arranging devices in grids for `Mesh`."""

from __future__ import annotations

from tetrax.runtime.mesh_context import create_device_mesh, create_hybrid_device_mesh

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]
