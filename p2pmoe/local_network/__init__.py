"""A whole network on this machine, each part a process of its own, on loopback."""
