"""The serve loop: from a DISPATCH to its OUTPUT."""
