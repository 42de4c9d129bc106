"""Experts from the local disk: a bounded cache, and files that are cut short (B03)."""
