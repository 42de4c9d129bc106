"""Answers that follow a grammar: JSON of a schema, or a forced call of a tool."""
