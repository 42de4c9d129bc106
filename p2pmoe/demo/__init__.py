"""The demo: a whole network on one machine, each part a process of its own."""
