"""Weights of cold experts, fetched at once before the pass that will need them."""
