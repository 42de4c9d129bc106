"""The publisher: closed vouchers become entries, tiles, and a signed checkpoint.

Contract: the database decides what is in the log and in which order (`closing`); this
writes it out, again and again the same, so that a crash anywhere is mended by the next
run. A run reads what is committed, writes new entries and tiles, syncs them, **reads
them back and hashes them anew**, checks that the tree contains the last signed one, and
only then signs; the checkpoint is committed to the database before it is shown in the
folder. So no signed head ever covers a bit that the disk got wrong, and none is ever
taken back. What was signed and is not there as it was is `DifferenceFound`: nothing is
signed any more until the log's folder is restored or written anew.

A run is called from any thread but the writer's, by one at a time. Its state is in the
database and the folder.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, insert, select

from ledger.database import Reader, store_error
from ledger.desk import Desk
from ledger.errors import DifferenceFound, LogUnavailable, RemoteError
from ledger.log.checkpoint import (
    Checkpoint,
    log_key,
    sign_checkpoint,
    verify_checkpoint,
)
from ledger.log.entry import entry_hash, pack_entry
from ledger.log.folder import LogFolder
from ledger.log.note import MAX_SIGNATURES, NoteSignature, SignedNote
from ledger.log.tiles import (
    CHECKPOINT_PATH,
    TILE_WIDTH,
    Tile,
    extend,
    pack_bundle,
    tiles_of,
)
from ledger.log.tree import EMPTY_ROOT, verify_consistency
from ledger.schema import voucher
from ledger.schema_closing import checkpoint, closing, cosignature
from ledger.voucher import SignedVoucher, voucher_hash

__all__ = ["ClosedEntry", "Publisher", "checkpoint_note", "read_entries"]

T = TypeVar("T")
_BATCH = 8 * TILE_WIDTH  # entries of one checkpoint at most: 70 MB of the longest


@dataclass(frozen=True, slots=True)
class ClosedEntry:
    """An entry of the log, as a closed voucher makes it."""

    raw: bytes
    hash: bytes  # [32]


class Publisher:
    """Writes a ledger's log."""

    def __init__(self, reader: Reader, sign: Callable[[bytes], bytes]) -> None:
        """Publish what `reader` shows.

        Args:
            reader: the ledger's folder; the log lies in it.
            sign: makes the ledger's Ed25519 signature over given bytes.
        """
        self._reader = reader
        self._key = log_key(reader.identity.network, reader.identity.ledger)
        self._sign = sign
        self._folder = LogFolder(reader.folder.log)

    def publish(
        self, submit: Callable[[Callable[[Desk], Any]], Future[Any]]
    ) -> Checkpoint | None:
        """Bring the log up to what is closed; return a new checkpoint, if there is one.

        Args:
            submit: gives a job to the ledger's writer.

        Raises:
            DifferenceFound: database, folder and what was signed do not agree.
            StoreUnavailable, StoreBusy, LogUnavailable: disk or database refused; try
                again later.
        """
        published = None
        while True:
            try:
                head, n_new = self._one_batch(submit)
            except OSError as exc:
                raise store_error(exc, self._reader.folder) from exc
            published = head or published
            if n_new < _BATCH:
                return published

    def _one_batch(
        self, submit: Callable[[Callable[[Desk], Any]], Future[Any]]
    ) -> tuple[Checkpoint | None, int]:
        with self._reader.session() as connection:
            note, signed = self._last_signed(connection)
            size = signed.size if signed else 0
            # from the tile's beginning: its partial bundle is written anew
            start = size - size % TILE_WIDTH
            entries = read_entries(connection, start, size + _BATCH - start)
        self._check_shown(signed)
        n_new = start + len(entries) - size
        if n_new < 0:
            raise DifferenceFound(
                f"log of {size} entries is signed, {size + n_new} vouchers are closed"
            )
        if note is not None:
            self._show(note)
        if signed is not None and n_new == 0:
            return None, 0
        head = self._write(signed, start, entries)
        fresh = sign_checkpoint(head, self._key, self._sign)
        verify_checkpoint(fresh, self._key)
        submit(lambda desk: _record(desk, head, fresh)).result()
        self._show(fresh)
        for tile in tiles_of(head.size, size):
            if tile.width == TILE_WIDTH:
                self._folder.drop_partial(tile)
        return head, n_new

    def _last_signed(
        self, connection: Connection
    ) -> tuple[SignedNote | None, Checkpoint | None]:
        try:
            note = checkpoint_note(connection)
            return note, verify_checkpoint(note, self._key) if note else None
        except RemoteError as exc:
            raise DifferenceFound(f"the newest checkpoint stored: {exc}") from exc

    def _check_shown(self, signed: Checkpoint | None) -> None:
        """Refuse to sign behind a checkpoint that was shown.

        Raises:
            DifferenceFound: the folder shows more than the database knows.
        """
        try:
            shown = self._folder.checkpoint()
            head = verify_checkpoint(shown, self._key) if shown else None
        except RemoteError as exc:
            path = self._folder.path / CHECKPOINT_PATH
            raise DifferenceFound(f"{path}: {exc}") from exc
        known = signed.size if signed else 0
        if head and (head.size > known or (head.size == known and head != signed)):
            raise DifferenceFound(
                f"the log shows a checkpoint of {head.size} entries, "
                f"the database knows {known}: it is of an earlier day"
            )

    def _write(
        self, signed: Checkpoint | None, start: int, entries: Sequence[ClosedEntry]
    ) -> Checkpoint:
        """Write entries and tiles, read them back, and return the new head."""
        old_size = signed.size if signed else 0
        old_root = signed.root if signed else EMPTY_ROOT
        try:
            self._folder.tree(old_size, old_root)
            new = list(
                extend(
                    self._folder.tile,
                    old_size,
                    [entry.hash for entry in entries[old_size - start :]],
                )
            )
        except (RemoteError, LogUnavailable) as exc:
            raise DifferenceFound(f"log {self._folder.path}: {exc}") from exc
        size = start + len(entries)
        for tile, raw in new:
            if tile.level == 0:
                at = tile.index * TILE_WIDTH - start
                held = entries[at : at + tile.width]
                bundle = pack_bundle([entry.raw for entry in held])
                self._folder.put(tile.bundle_path, bundle)
            self._folder.put(tile.path, raw)
        self._folder.sync()
        return self._read_back(old_size, old_root, size, (start, entries))

    def _read_back(
        self,
        old_size: int,
        old_root: bytes,
        size: int,
        written: tuple[int, Sequence[ClosedEntry]],
    ) -> Checkpoint:
        """Hash what is on the disk now, and return the head if it is all right."""
        start, entries = written
        tree = self._folder.tree(size)
        try:
            for tile in tiles_of(size, old_size):
                if tile.level == 0:
                    self._check_bundle(tile, entries[tile.index * TILE_WIDTH - start :])
            for index in range(old_size, size):
                if tree.leaf(index) != entries[index - start].hash:
                    raise DifferenceFound(f"log entry {index} has another hash")
            root = tree.root
            verify_consistency(
                (old_size, old_root), (size, root), tree.consistency(old_size)
            )
        except (RemoteError, LogUnavailable) as exc:
            raise DifferenceFound(f"log {self._folder.path}: {exc}") from exc
        return Checkpoint(self._key.name, size, root)

    def _check_bundle(self, tile: Tile, expected: Sequence[ClosedEntry]) -> None:
        for at, raw in enumerate(self._folder.entries(tile)):
            if entry_hash(raw) != expected[at].hash:
                raise DifferenceFound(
                    f"{self._folder.path / tile.bundle_path}: "
                    f"entry {tile.index * TILE_WIDTH + at} is not what was closed"
                )

    def _show(self, note: SignedNote) -> None:
        self._folder.put(CHECKPOINT_PATH, note.pack())
        self._folder.sync()


def read_entries(connection: Connection, start: int, n_most: int) -> list[ClosedEntry]:
    """Return the log's entries from `start` on, as the closed vouchers make them.

    Raises:
        DifferenceFound: an index is missing, or an entry is not what was closed.
    """
    rows = connection.execute(
        select(
            closing.c.log_index,
            closing.c.entry_hash,
            closing.c.content_hash,
            closing.c.policy_hash,
            voucher.c.raw,
            voucher.c.worker_signature,
            voucher.c.backbone_signature,
        )
        .join(voucher, voucher.c.id == closing.c.voucher_id)
        .where(closing.c.log_index >= start)
        .order_by(closing.c.log_index)
        .limit(n_most)
    ).all()
    entries: list[ClosedEntry] = []
    for index, row in enumerate(rows, start):
        if row.log_index != index:
            raise DifferenceFound(f"log index {row.log_index} where {index} is due")
        signed = SignedVoucher(
            raw=row.raw,
            worker_signature=row.worker_signature,
            backbone_signature=row.backbone_signature,
        )
        raw = pack_entry(signed, row.policy_hash)
        closed = row.content_hash, row.entry_hash
        if closed != (voucher_hash(row.raw), entry_hash(raw)):
            raise DifferenceFound(f"log entry {index} is not what was closed")
        entries.append(ClosedEntry(raw, row.entry_hash))
    return entries


def checkpoint_note(
    connection: Connection, size: int | None = None
) -> SignedNote | None:
    """Return a checkpoint with what witnesses said about it.

    Args:
        connection: a reading session.
        size: entries of the log then; None for the newest.

    Returns:
        The note; None if there is no such checkpoint.

    Raises:
        FormatRefused: what is stored is no signed note.
    """
    statement = select(checkpoint).order_by(checkpoint.c.size.desc()).limit(1)
    if size is not None:
        statement = statement.where(checkpoint.c.size == size)
    row = connection.execute(statement).one_or_none()
    if row is None:
        return None
    note = SignedNote.parse(row.note)
    lines = connection.execute(
        select(cosignature.c.line)
        .where(cosignature.c.size == row.size)
        .order_by(cosignature.c.posted_us, cosignature.c.witness)
        .limit(MAX_SIGNATURES - len(note.signatures))
    ).scalars()
    witnessed = tuple(NoteSignature.parse(line) for line in lines)
    return SignedNote(note.text, note.signatures + witnessed)


def _record(desk: Desk, head: Checkpoint, note: SignedNote) -> None:
    desk.connection.execute(
        insert(checkpoint).values(
            size=head.size, root=head.root, note=note.pack(), posted_us=desk.now_us
        )
    )
