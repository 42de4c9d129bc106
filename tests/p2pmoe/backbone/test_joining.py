"""The network side is put together, or refused with a clear line."""
