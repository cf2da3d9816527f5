"""First-order operations by family; every operation carries all of its rules."""
