"""Folders of safetensors, as the Hugging Face hub has them, presented as GGUF models.

Whoever opens one sees GGUF's metadata keys, tensor names, shapes and bytes, as
llama.cpp's converter would write them with the precision kept; no file is written.
"""
