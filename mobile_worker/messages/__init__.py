"""End-to-end messages between peers; no I/O."""
