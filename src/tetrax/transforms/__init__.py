"""The engines: jvp, partial evaluation, transposition, batching, and the derivatives built on them.

No engine knows any operation; each asks the operation for its rule.
"""
