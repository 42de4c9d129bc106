"""The log in the database: its entries, its heads, and the files that follow from them.

Contract: read-only in the database. The entries are made of the closed vouchers in the
order of their index, and must be what was closed; the files written from them must lead
to every root that was signed, or it is `DifferenceFound`.
"""

from sqlalchemy import Connection, select

from ledger.errors import DifferenceFound
from ledger.log.checkpoint import Checkpoint
from ledger.log.entry import entry_hash, pack_entry
from ledger.log.note import MAX_SIGNATURES, NoteSignature, SignedNote
from ledger.log.tiles import TILE_WIDTH
from ledger.log.writing import ClosedEntry, LogWriter
from ledger.schema import voucher
from ledger.schema_closing import checkpoint, closing, cosignature
from ledger.voucher import SignedVoucher, voucher_hash

__all__ = ["checkpoint_note", "read_entries", "rewrite_signed"]


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


def rewrite_signed(
    connection: Connection, writer: LogWriter, head: Checkpoint | None
) -> Checkpoint | None:
    """Write the files of every signed head after `head`; return the last one.

    Each head is written in its turn, so that each has its partial tiles.

    Args:
        connection: a reading session.
        writer: of the folder.
        head: which the folder has; None for an empty one.

    Raises:
        DifferenceFound: the database does not lead to a root that was signed.
        OSError: the disk refused.
    """
    before = head.size if head else -1
    signed = connection.execute(
        select(checkpoint.c.size, checkpoint.c.root)
        .where(checkpoint.c.size > before)
        .order_by(checkpoint.c.size)
    ).all()
    for size, root in signed:
        before = head.size if head else 0
        start = before - before % TILE_WIDTH
        entries = read_entries(connection, start, size - start)
        if start + len(entries) != size:
            raise DifferenceFound(
                f"log of {size} entries is signed, "
                f"{start + len(entries)} vouchers are closed"
            )
        head = writer.write(head, start, entries)
        if head.root != root:
            raise DifferenceFound(f"log of {size} entries was signed another root")
        writer.drop_partial(size, before)
    return head
