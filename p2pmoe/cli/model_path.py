"""What MODEL means on the command line: a path, or a model shipped in the package."""

from pathlib import Path

__all__ = ["model_path"]

_MODELS = Path(__file__).resolve().parents[1] / "models"
_SHIPPED = {"pocket": "pocket-q4_0.gguf"}


def model_path(model: str) -> Path:
    """Return the file or folder that `model` names; whether it is there shows later."""
    shipped = _SHIPPED.get(model)
    return Path(model) if shipped is None else _MODELS / shipped
