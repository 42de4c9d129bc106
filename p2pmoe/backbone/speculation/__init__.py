"""Drafting tokens, verifying them in one pass, and choosing when that pays."""
