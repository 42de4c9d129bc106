"""One request on a decode thread: where it ends, and that it ends (B18, B20)."""
