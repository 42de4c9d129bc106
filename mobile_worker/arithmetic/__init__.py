"""Expert arithmetic, specified to the bit."""
