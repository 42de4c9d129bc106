"""What `serve` needs of the disk before anything runs: the model's file, a data folder.

Checked first, so that what is wrong is told before anything else starts.
"""

from pathlib import Path

from p2pmoe.config import ServeConfig
from p2pmoe.errors import ConfigurationError
from p2pmoe.model.model import describe_model
from p2pmoe.weights.model_file import ModelFile, open_model

__all__ = ["make_folder", "open_configured_model"]


def open_configured_model(config: ServeConfig) -> ModelFile | None:
    """Open the model and check its header; None if a manifest names it."""
    if config.manifest is None:
        model_file = open_model(config.model)
        describe_model(model_file)
        return model_file
    from p2pmoe.backbone.base_model import (  # noqa: PLC0415 - loads httpx
        parse_address,
    )

    parse_address(config.manifest)
    return None


def make_folder(folder: Path) -> None:
    """Make a folder that can be written, or raise ConfigurationError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigurationError(
            f"cannot use the data folder {folder}: {reason}",
            advice="name a folder that can be written with --data",
        ) from error
