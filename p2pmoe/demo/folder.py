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
        ConfigurationError: the folder cannot be made.
    """
    with contextlib.ExitStack() as stack:
        try:
            if keep is None:
                made = tempfile.TemporaryDirectory(prefix="p2pmoe-demo-")
                folder = Path(stack.enter_context(made))
            else:
                folder = _kept(Path(keep))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ConfigurationError(
                f"cannot make a folder for the demo: {reason}",
                advice="name one that can be written with --keep",
            ) from error
        yield folder


def _kept(folder: Path) -> Path:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FolderNotEmpty(
            f"{folder} is not an empty folder", advice="name another one with --keep"
        )
    folder.mkdir(parents=True, exist_ok=True)
    return folder
