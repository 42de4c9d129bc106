"""Look at this host and the way to a network: one finding a line, with its remedy."""
