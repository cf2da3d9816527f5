"""Process 2 fails before it has begun."""

from __future__ import annotations

import os

from tetrax import distributed

if os.environ["PMI_RANK"] == "2":
    raise ImportError("something is not installed there")
distributed.initialize()
print("tried")
