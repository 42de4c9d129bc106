"""The model's own arithmetic: attention, router, KV cache, sampler."""
