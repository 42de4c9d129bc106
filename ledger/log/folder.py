"""The log's files: read from a folder or wherever else, written by the publisher.

Contract: `LogReader` reads checkpoint, tiles and entries through a `Fetch`, a function
of (path, bound) that gives a file's bytes; what is longer than the bound, or than the
tile's own length, is refused. Where a partial tile is gone, the full one that it grew
into is read and cut. Nothing read is believed here beyond its length: proofs are.

`LogFolder` is the writing side. A file is written beside its name, synced, and renamed:
there is never half a tile, and the checkpoint is replaced in one step. Names are
durable after `sync`.
"""

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from ledger.errors import FormatRefused, LogUnavailable, NotFound
from ledger.folders import sync_folder
from ledger.log.note import MAX_NOTE_BYTES, SignedNote
from ledger.log.tiles import (
    CHECKPOINT_PATH,
    MAX_BUNDLE_BYTES,
    TILE_WIDTH,
    Tile,
    TileTree,
    parse_bundle,
)
from ledger.log.tree import HASH_BYTES

__all__ = ["Fetch", "LogFolder", "LogReader", "fetch_from", "write_whole"]

# Bytes of a file of the log, at most so many. Raises NotFound or LogUnavailable.
Fetch = Callable[[str, int], bytes]


def fetch_from(folder: Path) -> Fetch:
    """Return a `Fetch` that reads a log's folder."""

    def fetch(path: str, max_bytes: int) -> bytes:
        try:
            with (folder / path).open("rb") as file:
                return file.read(max_bytes + 1)
        except FileNotFoundError as exc:
            raise NotFound(f"{folder / path} is not there") from exc
        except OSError as exc:
            raise LogUnavailable(f"{folder / path}: {exc.strerror}") from exc

    return fetch


class LogReader:
    """A log's parts, wherever they come from."""

    def __init__(self, fetch: Fetch) -> None:
        """Read through `fetch`."""
        self._fetch = fetch

    def checkpoint(self) -> SignedNote | None:
        """Return the newest checkpoint, unverified; None if the log has none yet.

        Raises:
            FormatRefused: it is no signed note.
            LogUnavailable: it cannot be read.
        """
        try:
            raw = self._read(CHECKPOINT_PATH, MAX_NOTE_BYTES)
        except NotFound:
            return None
        return SignedNote.parse(raw)

    def tile(self, tile: Tile) -> bytes:
        """Return the hashes of a tile, `tile.n_bytes` of them.

        Raises:
            FormatRefused: it has another length.
            LogUnavailable: it is not there.
        """
        try:
            raw = self._read(tile.path, tile.n_bytes)
        except NotFound as exc:
            if tile.width == TILE_WIDTH:
                raise LogUnavailable(f"log: {exc}") from exc
            raw = self._of_full(tile.full.path, TILE_WIDTH * HASH_BYTES, exc)
            raw = raw[: tile.n_bytes]
        if len(raw) != tile.n_bytes:
            raise FormatRefused(
                f"{tile.path} has {len(raw)} bytes, needs {tile.n_bytes}"
            )
        return raw

    def entries(self, tile: Tile) -> list[bytes]:
        """Return the entries that a tile of level 0 has the hashes of, unverified.

        Raises:
            FormatRefused: it does not hold so many.
            LogUnavailable: it is not there.
        """
        try:
            raw, n_entries = self._read(tile.bundle_path, MAX_BUNDLE_BYTES), tile.width
        except NotFound as exc:
            if tile.width == TILE_WIDTH:
                raise LogUnavailable(f"log: {exc}") from exc
            raw = self._of_full(tile.full.bundle_path, MAX_BUNDLE_BYTES, exc)
            n_entries = TILE_WIDTH
        try:
            return parse_bundle(raw, n_entries)[: tile.width]
        except FormatRefused as exc:
            raise FormatRefused(f"{tile.bundle_path}: {exc}") from exc

    def tree(self, size: int, root: bytes | None = None) -> TileTree:
        """Return root and proofs of the tree of `size` entries; see `TileTree`."""
        return TileTree(size, self.tile, root)

    def _of_full(self, path: str, max_bytes: int, first: NotFound) -> bytes:
        try:
            return self._read(path, max_bytes)
        except NotFound:
            raise LogUnavailable(f"log: {first}") from first

    def _read(self, path: str, max_bytes: int) -> bytes:
        raw = self._fetch(path, max_bytes)
        if len(raw) > max_bytes:
            raise FormatRefused(f"{path} has more than {max_bytes} bytes")
        return raw


class LogFolder(LogReader):
    """A log's folder and the one process that writes it."""

    def __init__(self, path: Path) -> None:
        """Write below `path`; the folder is made with the first file."""
        super().__init__(fetch_from(path))
        self.path = path
        self._unsynced: set[Path] = set()

    def put(self, name: str, raw: bytes) -> None:
        """Write a file, unless it is there just so; its name is durable after `sync`.

        Raises:
            OSError: the disk refused; the file is as it was.
        """
        path = self.path / name
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size == len(raw) and path.read_bytes() == raw:
                return
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, raw)
        above = path.parent
        while above not in self._unsynced and above != self.path.parent:
            self._unsynced.add(above)
            above = above.parent
        self._unsynced.add(self.path.parent)

    def sync(self) -> None:
        """Put the names of what was written on the disk.

        Raises:
            OSError: the disk refused.
        """
        for folder in sorted(self._unsynced, reverse=True):
            sync_folder(folder)
        self._unsynced.clear()

    def drop_partial(self, tile: Tile) -> None:
        """Remove the partial tiles that a full one took the place of."""
        for path in {tile.path, tile.bundle_path}:
            shutil.rmtree(self.path / f"{path}.p", ignore_errors=True)


def write_whole(path: Path, raw: bytes) -> None:
    """Write a file whole or not at all; its name is durable once its folder is synced.

    Raises:
        OSError: the disk refused; what was there is there still.
    """
    draft = path.with_name(f"{path.name}.new")
    with draft.open("wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
