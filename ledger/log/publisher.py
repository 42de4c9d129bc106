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

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from sqlalchemy import Connection, func, insert, select

from ledger.database import Reader, store_error
from ledger.desk import Desk
from ledger.errors import DifferenceFound, RemoteError
from ledger.log.checkpoint import (
    Checkpoint,
    log_key,
    sign_checkpoint,
    verify_checkpoint,
)
from ledger.log.entry import entry_hash, pack_entry
from ledger.log.folder import LogFolder
from ledger.log.note import MAX_SIGNATURES, NoteSignature, SignedNote
from ledger.log.tiles import CHECKPOINT_PATH, TILE_WIDTH
from ledger.log.writing import ClosedEntry, LogWriter, check_shown
from ledger.schema import voucher
from ledger.schema_closing import checkpoint, closing, cosignature
from ledger.voucher import SignedVoucher, voucher_hash

__all__ = ["Publisher", "checkpoint_note", "read_entries"]

_BATCH = 8 * TILE_WIDTH  # entries of one checkpoint at most: 70 MB of the longest


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
        self._writer = LogWriter(self._folder, self._key.name)

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
            n_new = min(_n_closed(connection) - size, _BATCH)
            # from the tile's beginning: its partial bundle is written anew
            start = size - size % TILE_WIDTH
            entries = []
            if n_new > 0:
                entries = read_entries(connection, start, size + n_new - start)
        check_shown(self._folder, self._key, signed)
        if n_new < 0:
            raise DifferenceFound(
                f"log of {size} entries is signed, {size + n_new} vouchers are closed"
            )
        if note is not None:
            self._show(note)
        if signed is not None and n_new == 0:
            return None, 0
        head = self._writer.write(signed, start, entries)
        fresh = sign_checkpoint(head, self._key, self._sign)
        verify_checkpoint(fresh, self._key)
        submit(lambda desk: _record(desk, head, fresh)).result()
        self._show(fresh)
        self._writer.drop_partial(head.size, size)
        return head, n_new

    def _last_signed(
        self, connection: Connection
    ) -> tuple[SignedNote | None, Checkpoint | None]:
        try:
            note = checkpoint_note(connection)
            return note, verify_checkpoint(note, self._key) if note else None
        except RemoteError as exc:
            raise DifferenceFound(f"the newest checkpoint stored: {exc}") from exc

    def _show(self, note: SignedNote) -> None:
        self._folder.put(CHECKPOINT_PATH, note.pack())
        self._folder.sync()


def read_entries(connection: Connection, start: int, n_most: int) -> list[ClosedEntry]:
    """Return the log's entries from `start` on, as the closed vouchers make them.

    Args:
        connection: a reading session.
        start: the first's index.
        n_most: how many at most.

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


def _n_closed(connection: Connection) -> int:
    """Return how long the log is by the database, which numbers from 0."""
    last = connection.execute(select(func.max(closing.c.log_index))).scalar_one()
    return 0 if last is None else int(last) + 1


def _record(desk: Desk, head: Checkpoint, note: SignedNote) -> None:
    desk.connection.execute(
        insert(checkpoint).values(
            size=head.size, root=head.root, note=note.pack(), posted_us=desk.now_us
        )
    )
