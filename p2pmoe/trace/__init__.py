"""Traces: what a run computed, row by row, as a file; and where two runs deviate."""
