"""GGUF weight formats, one small class each."""
