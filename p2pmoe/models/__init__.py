"""The demo's model, shipped with the package."""
