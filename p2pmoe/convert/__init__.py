"""Writing a GGUF file from any model, with a chosen precision for each part."""
