"""The scarcity market: who holds what, and at what price."""
