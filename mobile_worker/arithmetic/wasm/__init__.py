"""The arithmetic as WebAssembly, run by wasmtime here and by browsers later."""
