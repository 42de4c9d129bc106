"""Write entries and tiles, read them back, and say what head they make.

Contract: what is written is on the disk, and was hashed anew from the disk, before
`LogWriter.write` returns the head; whoever signs it signs what the disk has. The tree
so far must lead to the head so far, and be contained in the new one. Whatever does not
fit is `DifferenceFound`. Writing the same again changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ledger.errors import DifferenceFound, LogUnavailable, RemoteError
from ledger.log.checkpoint import Checkpoint, verify_checkpoint
from ledger.log.entry import entry_hash
from ledger.log.folder import LogFolder
from ledger.log.note import NoteKey
from ledger.log.tiles import (
    CHECKPOINT_PATH,
    TILE_WIDTH,
    Tile,
    extend,
    pack_bundle,
    tiles_of,
)
from ledger.log.tree import EMPTY_ROOT, verify_consistency

__all__ = ["ClosedEntry", "LogWriter", "check_not_later", "check_shown"]


@dataclass(frozen=True, slots=True)
class ClosedEntry:
    """An entry of the log, as a closed voucher makes it."""

    raw: bytes
    hash: bytes  # [32]


class LogWriter:
    """Extends the tree in a folder."""

    def __init__(self, folder: LogFolder, origin: str) -> None:
        """Write to `folder` the log that is named `origin`."""
        self._folder = folder
        self._origin = origin

    def write(
        self, old: Checkpoint | None, start: int, entries: Sequence[ClosedEntry]
    ) -> Checkpoint:
        """Write what comes after `old`, read it back, and return the new head.

        Args:
            old: the head so far; None for none.
            start: index of the first of `entries`: where old's last tile begins.
            entries: old's last ones from there, then the new ones.

        Raises:
            DifferenceFound: the folder has something else than `old`, or the disk
                gave back something else than was written.
            OSError: the disk refused.
        """
        old_size, old_root = (old.size, old.root) if old else (0, EMPTY_ROOT)
        size = start + len(entries)
        hashes = [entry.hash for entry in entries[old_size - start :]]
        try:
            self._folder.tree(old_size, old_root)
            for tile, raw in list(extend(self._folder.tile, old_size, hashes)):
                if tile.level == 0:
                    at = tile.index * TILE_WIDTH - start
                    held = entries[at : at + tile.width]
                    bundle = pack_bundle([entry.raw for entry in held])
                    self._folder.put(tile.bundle_path, bundle)
                self._folder.put(tile.path, raw)
            self._folder.sync()
            return self._read_back((old_size, old_root), size, (start, entries))
        except (RemoteError, LogUnavailable) as exc:
            raise DifferenceFound(f"log {self._folder.path}: {exc}") from exc

    def drop_partial(self, size: int, old_size: int) -> None:
        """Remove partial tiles that full ones of the larger tree took the place of."""
        for tile in tiles_of(size, old_size):
            if tile.width == TILE_WIDTH:
                self._folder.drop_partial(tile)

    def _read_back(
        self,
        old: tuple[int, bytes],
        size: int,
        written: tuple[int, Sequence[ClosedEntry]],
    ) -> Checkpoint:
        """Hash what is on the disk now, and return the head if it is all right."""
        start, entries = written
        old_size = old[0]
        tree = self._folder.tree(size)
        for tile in tiles_of(size, old_size):
            if tile.level == 0:
                self._check_bundle(tile, entries[tile.index * TILE_WIDTH - start :])
        for index in range(old_size, size):
            if tree.leaf(index) != entries[index - start].hash:
                raise DifferenceFound(f"log entry {index} has another hash")
        head = Checkpoint(self._origin, size, tree.root)
        verify_consistency(old, (size, head.root), tree.consistency(old_size))
        return head

    def _check_bundle(self, tile: Tile, expected: Sequence[ClosedEntry]) -> None:
        for at, raw in enumerate(self._folder.entries(tile)):
            if entry_hash(raw) != expected[at].hash:
                raise DifferenceFound(
                    f"{self._folder.path / tile.bundle_path}: "
                    f"entry {tile.index * TILE_WIDTH + at} is not what was closed"
                )


def check_shown(
    folder: LogFolder, key: NoteKey, signed: Checkpoint | None
) -> Checkpoint | None:
    """Return the head that the folder shows; refuse to go on behind it.

    Args:
        folder: the log's.
        key: signs its checkpoints.
        signed: the newest that the database knows.

    Raises:
        DifferenceFound: the folder shows another or a later one.
        LogUnavailable: the folder cannot be read.
    """
    try:
        shown = folder.checkpoint()
        head = verify_checkpoint(shown, key) if shown else None
    except RemoteError as exc:
        raise DifferenceFound(f"{folder.path / CHECKPOINT_PATH}: {exc}") from exc
    check_not_later(head, signed)
    return head


def check_not_later(head: Checkpoint | None, signed: Checkpoint | None) -> None:
    """Refuse a head that was shown and that the database does not know.

    Raises:
        DifferenceFound: it is later than the newest in the database, or another.
    """
    known = signed.size if signed else 0
    if head and (head.size > known or (head.size == known and head != signed)):
        raise DifferenceFound(
            f"the log shows a checkpoint of {head.size} entries, "
            f"the database knows {known}: it is of an earlier day"
        )
