"""Shards by hash from the model file: ranges, borders, unknown names."""
