"""What a model holds and whether it runs here, read from its header alone."""
