"""Where a backbone and a worker keep their data, unless `--data` says otherwise."""

from pathlib import Path

__all__ = ["backbone_folder", "evaluations_folder", "worker_folder"]


def backbone_folder() -> Path:
    """Return the folder for a backbone's key, measured use and vouchers."""
    return _data() / "backbone"


def evaluations_folder() -> Path:
    """Return where `eval` stores runs, and where `serve` looks for them."""
    from p2pmoe.evaluate.store import FOLDER_NAME

    return backbone_folder() / FOLDER_NAME


def worker_folder() -> Path:
    """Return the folder for a worker's key, shards and vouchers."""
    return _data() / "worker"


def _data() -> Path:
    import platformdirs

    return Path(platformdirs.user_data_dir("p2pmoe", appauthor=False))
