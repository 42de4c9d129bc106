"""Audit: the public log says what was closed, in every checkpoint that was signed.

Contract: the entries are made again from the closed vouchers. Every checkpoint ever
signed must be the root of the first so many of them (which is why each contains the one
before), and carry the ledger's signature; every cosignature must be its witness's.
Tiles and entry bundles in the log's folder are compared with what they must hold, and
the checkpoint shown there is one of those signed, the newest or one of the last hour.
Checkpoints that somebody kept elsewhere may be handed in; the log must still
contain them. Reads only; raises `DifferenceFound`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from sqlalchemy import Connection, func, select

from ledger.audit_books import Books, holds, naming, same
from ledger.audit_closings import closings_in_order, entry_of
from ledger.errors import DifferenceFound, LogUnavailable
from ledger.log.checkpoint import (
    Checkpoint,
    log_key,
    verify_checkpoint,
    verify_cosignature,
    witness_key,
)
from ledger.log.folder import LogReader, fetch_from
from ledger.log.note import NoteSignature, SignedNote
from ledger.log.tiles import TILE_WIDTH, extend
from ledger.log.tree import EMPTY_ROOT, node_hash
from ledger.schema import transfer
from ledger.schema_closing import checkpoint, cosignature

__all__ = ["check_log", "read_shown"]

_MAX_BEHIND_US = 3_600_000_000  # the log behind the database


def read_shown(folder: Path, books: Books) -> Checkpoint | None:
    """Return the checkpoint that the log's folder shows, its signature checked.

    Of a ledger that runs it must be read before the database is: what is shown there
    was committed before.
    """
    name = "the log's checkpoint"
    try:
        with naming(name):
            note = LogReader(fetch_from(folder)).checkpoint()
    except LogUnavailable as exc:
        raise DifferenceFound(f"{name}: {exc}") from exc
    return None if note is None else _signed_head(name, note.pack(), books)


def check_log(
    connection: Connection,
    folder: Path,
    books: Books,
    shown: Checkpoint | None,
    kept: Iterable[bytes] = (),
) -> None:
    """Check the log against the closings.

    Args:
        connection: a reading session.
        folder: the log's folder.
        books: with all closings checked.
        shown: what `read_shown` returned.
        kept: checkpoints from elsewhere, as signed notes' bytes.
    """
    rows = connection.execute(select(checkpoint).order_by(checkpoint.c.size)).all()
    heads: list[Checkpoint] = []
    for row in rows:
        name = f"checkpoint of {row.size}"
        head = _signed_head(name, row.note, books)
        same(name, "size", row.size, head.size)
        same(name, "root", row.root, head.root)
        heads.append(head)
        books.report.checkpoints += 1
    from_elsewhere = [_signed_head("checkpoint kept elsewhere", n, books) for n in kept]
    _check_roots([*heads, *from_elsewhere], books.entries)
    _check_cosignatures(connection, {head.size: head for head in heads}, books)
    _check_shown(connection, heads, shown)
    if shown is not None:
        _check_tiles(connection, folder, shown.size, books)
        books.report.log_entries = shown.size


def _signed_head(name: str, note: bytes, books: Books) -> Checkpoint:
    key = log_key(books.owner.network, books.owner.ledger)
    with naming(name):
        return verify_checkpoint(SignedNote.parse(note), key)


def _check_roots(heads: Sequence[Checkpoint], entries: Sequence[bytes]) -> None:
    """Check each head against the root of the first so many entries."""
    peaks: list[tuple[int, bytes]] = []  # complete subtrees, (entries, hash)
    size = 0
    for head in sorted(heads, key=lambda head: head.size):
        name = f"checkpoint of {head.size}"
        if head.size > len(entries):
            raise DifferenceFound(f"{name}: {len(entries)} vouchers are closed")
        for leaf in entries[size : head.size]:
            peak = (1, leaf)
            while peaks and peaks[-1][0] == peak[0]:
                left = peaks.pop()
                peak = (2 * left[0], node_hash(left[1], peak[1]))
            peaks.append(peak)
        size = head.size
        root = peaks[-1][1] if peaks else EMPTY_ROOT
        for _, left_hash in reversed(peaks[:-1]):
            root = node_hash(left_hash, root)
        same(name, "root", head.root, root)


def _check_cosignatures(
    connection: Connection, heads: dict[int, Checkpoint], books: Books
) -> None:
    for row in connection.execute(select(cosignature)):
        name = f"cosignature of {row.witness[:4].hex()} on {row.size}"
        if row.size not in heads:
            raise DifferenceFound(f"{name}: there is no such checkpoint")
        with naming(name):
            line = NoteSignature.parse(row.line)
            key = witness_key(line.name, row.witness)
            verify_cosignature(heads[row.size].text, line, key)
        books.report.cosignatures += 1


def _check_shown(
    connection: Connection, heads: Sequence[Checkpoint], shown: Checkpoint | None
) -> None:
    """Check the shown checkpoint: the newest, or one that was so shortly before.

    A crash, or a backup of a ledger that ran, leaves the log a little behind.
    """
    name = "the log's checkpoint"
    if shown is None:
        if len(heads) > 1:
            raise DifferenceFound(f"{name} is not there, {len(heads)} were signed")
        return
    holds(name, "it was signed", shown in heads)
    missing_us = connection.execute(
        select(func.min(checkpoint.c.posted_us)).where(checkpoint.c.size > shown.size)
    ).scalar_one()
    if missing_us is not None:
        newest_us = max(
            connection.execute(select(func.max(column))).scalar_one() or 0
            for column in (checkpoint.c.posted_us, transfer.c.posted_us)
        )
        holds(name, "it is one of the newest", missing_us > newest_us - _MAX_BEHIND_US)


def _check_tiles(connection: Connection, folder: Path, size: int, books: Books) -> None:
    """Compare every tile and bundle of the shown tree with what it must hold."""
    log = LogReader(fetch_from(folder))
    tiles = extend(_no_tile, 0, books.entries[:size])
    for tile, raw in tiles:
        try:
            with naming(tile.path):
                same(tile.path, "content", log.tile(tile), raw)
                if tile.level == 0:
                    start = tile.index * TILE_WIDTH
                    wanted = _entries(connection, start, start + tile.width)
                    same(tile.bundle_path, "content", log.entries(tile), wanted)
        except LogUnavailable as exc:
            raise DifferenceFound(str(exc)) from exc


def _no_tile(_: object) -> bytes:
    raise LookupError  # a tree that grows from nothing has nothing to read


def _entries(connection: Connection, start: int, end: int) -> list[bytes]:
    """Return the entries of a span, made again from the closed vouchers."""
    return [entry_of(row) for row in closings_in_order(connection, start, end)]
