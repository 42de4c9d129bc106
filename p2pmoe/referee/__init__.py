"""The referee of a dispute: whoever has the expert recomputes its results."""
