"""The network as its operator keeps it: its key, who serves it, and who may join."""
