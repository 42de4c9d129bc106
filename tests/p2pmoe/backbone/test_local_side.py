"""The local side: memory, hot set, and measured use between runs."""
