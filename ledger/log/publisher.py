"""The publisher: closed vouchers become entries, tiles, and a signed checkpoint.

Contract: the database decides what is in the log and in which order (`closing`); this
writes it out, again and again the same, so that a crash anywhere is mended by the next
run. A run reads what is committed, writes new entries and tiles, syncs them, **reads
them back and hashes them anew**, checks that the tree contains the last signed one, and
only then signs; the checkpoint is committed to the database before it is shown in the
folder. So no signed head ever covers a bit that the disk got wrong, and none is ever
taken back. A folder that shows an older head, or none, is brought up to the signed one
first. What was shown and is not there as it was is `DifferenceFound`: nothing is signed
any more until the log's folder is restored or written anew (`ledger.log.rebuilding`).

A run is called from any thread but the writer's, by one at a time. Its state is in the
database and the folder.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from sqlalchemy import Connection, func, insert, select

from ledger.database import Reader, store_error
from ledger.desk import Desk
from ledger.errors import DifferenceFound, LogUnavailable, RemoteError
from ledger.log.checkpoint import (
    Checkpoint,
    log_key,
    sign_checkpoint,
    verify_checkpoint,
)
from ledger.log.folder import LogFolder
from ledger.log.note import SignedNote
from ledger.log.records import checkpoint_note, read_entries, rewrite_signed
from ledger.log.tiles import CHECKPOINT_PATH, TILE_WIDTH
from ledger.log.writing import LogWriter, check_not_later, check_shown
from ledger.schema_closing import checkpoint, closing

__all__ = ["Publisher", "refuse_older_database"]

_BATCH = 8 * TILE_WIDTH  # entries of one checkpoint at most: 70 MB of the longest

_MAX_BATCHES = 32  # of one run: some seconds, so that a ledger can be stopped


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

        After a long time without, one run does a part, and the next goes on.

        Args:
            submit: gives a job to the ledger's writer.

        Raises:
            DifferenceFound: database, folder and what was signed do not agree.
            StoreUnavailable, StoreBusy, LogUnavailable: disk or database refused; try
                again later.
        """
        published = None
        for _ in range(_MAX_BATCHES):
            try:
                head, n_new = self._one_batch(submit)
            except OSError as exc:
                raise store_error(exc, self._reader.folder) from exc
            published = head or published
            if n_new < _BATCH:
                break
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
        if n_new < 0:
            raise DifferenceFound(
                f"log of {size} entries is signed, {size + n_new} vouchers are closed"
            )
        shown = check_shown(self._folder, self._key, signed)
        if note is not None:
            if shown != signed:
                # a crash, or a folder from a backup taken a moment before its database
                with self._reader.session() as connection:
                    rewrite_signed(connection, self._writer, shown)
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


def refuse_older_database(reader: Reader) -> None:
    """Refuse a database that is of an earlier day than the log beside it.

    For whoever opens the books to write: what is in the leaf files beyond the
    database's knowledge would be cut off. A folder that is damaged is for `publish`.

    Raises:
        DifferenceFound: the log shows a head that the database does not know.
    """
    key = log_key(reader.identity.network, reader.identity.ledger)
    try:
        with reader.session() as connection:
            note = checkpoint_note(connection)
        signed = verify_checkpoint(note, key) if note else None
        shown = LogFolder(reader.folder.log).checkpoint()
        head = verify_checkpoint(shown, key) if shown else None
    except (RemoteError, LogUnavailable):
        return
    try:
        check_not_later(head, signed)
    except DifferenceFound as exc:
        exc.advice = "Put back the newest database, or restore a backup elsewhere."
        raise


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
