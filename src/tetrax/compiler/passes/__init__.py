"""Passes over programs: pure functions, one per file."""
