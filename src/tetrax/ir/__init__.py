"""Intermediate representations: `Program` (arrays) and `Kernel` (loops), with checkers and text forms."""
