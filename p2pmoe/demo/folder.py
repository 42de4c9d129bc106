"""Where the demo's processes keep their files: a folder of its own, gone afterwards."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from p2pmoe.errors import ConfigurationError

__all__ = ["FolderNotEmpty", "demo_folder"]


class FolderNotEmpty(ConfigurationError):
    """The folder to keep the demo's files in has files already."""


@contextlib.contextmanager
def demo_folder(keep: str | None) -> Iterator[Path]:
    """Give a temporary folder, or `keep` itself, made if it is not there.

    Raises:
        FolderNotEmpty: `keep` holds something, or is no folder.
    """
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="p2pmoe-demo-") as name:
            yield Path(name)
        return
    folder = Path(keep)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FolderNotEmpty(
            f"{keep} is not an empty folder", advice="name another one with --keep"
        )
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
