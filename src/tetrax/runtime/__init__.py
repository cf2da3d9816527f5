"""What holds and runs: arrays, devices, the LLVM engine, LAPACK pointers, the disk cache."""
