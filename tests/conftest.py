"""What all tests share."""

from __future__ import annotations

import os

from hypothesis import settings

# All tests run on a CPU that is split into eight devices, which whoever does not ask for them does
# not notice. Said before anything reads the settings.
os.environ.setdefault("TETRAX_NUM_CPU_DEVICES", "8")

# The same examples at every run: a failure on one machine is a failure on all. Compiling takes as
# long as it takes, so there is no deadline per example.
settings.register_profile("tetrax", derandomize=True, deadline=None)
settings.load_profile("tetrax")
