"""Checks of a model against what another implementation has computed with it."""
