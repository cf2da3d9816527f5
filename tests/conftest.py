"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# The same examples at every run: a failure on one machine is a failure on all. Compiling takes as
# long as it takes, so there is no deadline per example.
settings.register_profile("tetrax", derandomize=True, deadline=None)
settings.load_profile("tetrax")
