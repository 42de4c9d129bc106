"""Calls of tools in a model's text: what they are, and each family's way to write."""
