"""Which sequences run in which step: pure cores, driven by the lane threads."""
