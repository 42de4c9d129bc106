"""The arithmetic in C, an optional extension with a part per instruction set."""
