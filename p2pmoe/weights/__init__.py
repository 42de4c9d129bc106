"""Model files: GGUF reader, tensor layouts, manifests."""
