"""Primitives, what arrays and tracers share, traces, staging, and the two late-bound seams."""
