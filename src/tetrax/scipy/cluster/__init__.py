"""Clustering: `tetrax.scipy.cluster`."""

from __future__ import annotations

from tetrax.scipy.cluster import vq

__all__ = ["vq"]
