"""One file per architecture, all in the same order of parts."""
