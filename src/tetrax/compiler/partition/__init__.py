"""From a program on whole arrays to the program of one device: `partition.py` is the entry."""
