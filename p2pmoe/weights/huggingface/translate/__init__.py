"""One file per architecture: what its config.json and tensors are called in GGUF.

Each has the same order of parts: a docstring with what is special, `ARCHITECTURE`
(GGUF's name), `NAMES` (the hub's), `metadata(config)`, `tensors(table, config)`.
"""
