"""Intermediate representations, `Program` (arrays) and `Kernel` (loops): checkers, text forms."""
