"""Measure a relay from where a peer stands: how it is reached, and how frames fare."""
