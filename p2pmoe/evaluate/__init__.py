"""How good a model's answers are, in numbers that can be compared."""
