"""From programs to machine code: passes, fusion, lowering, buffers, drivers, eager evaluation."""
