"""Look over a ledger's files: room on the disk, leaf files, the public log's tiles.

Contract: as `ledger.checkup`. A leaf file must be there in the form that the database
says (plain, packed, pruned) and as long as it says; a tile of the newest checkpoint
must be there and have its length. With `is_full` packed files are unpacked and compared
with their digest, and the tiles must lead to the checkpoint's root.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from sqlalchemy import Connection, select

from ledger.database import LedgerFolder, Reader, highest
from ledger.errors import LedgerError
from ledger.leaf_files import (
    LeafPlace,
    leaf_path,
    packed_path,
    pruned_path,
    read_leaves,
)
from ledger.leaf_packs import packed_length
from ledger.log.checkpoint import Checkpoint, log_key, verify_checkpoint
from ledger.log.folder import LogReader, fetch_from
from ledger.log.tiles import Tile, tiles_of
from ledger.schema import leaf_file
from ledger.schema_closing import checkpoint, closing, leaf_file_state

__all__ = ["Finding", "Severity", "check_files"]

_LITTLE_BYTES, _LOW_BYTES = 64 << 20, 1 << 30
_READ_BYTES = 1 << 20
_MAX_UNPUBLISHED = 4096  # entries between a close and the next checkpoint


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check and what it found, in one line."""

    check: str
    severity: Severity
    detail: str


def check_files(
    reader: Reader, connection: Connection, *, is_full: bool
) -> Iterator[Finding]:
    """Yield what is found about a ledger's files."""
    yield from _check_room(reader.folder)
    yield _check_leaves(reader.folder, connection, is_full=is_full)
    yield _check_log(reader, connection, is_full=is_full)


def _check_room(folder: LedgerFolder) -> Iterator[Finding]:
    free = shutil.disk_usage(folder.path).free
    severity = Severity.OK
    if free < _LOW_BYTES:
        severity = Severity.FAULT if free < _LITTLE_BYTES else Severity.WARNING
    yield Finding("disk", severity, f"{free >> 20} MiB free at {folder.path}")
    if not os.access(folder.path, os.W_OK):
        yield Finding(
            "folder",
            Severity.WARNING,
            f"{folder.path} is read-only: a ledger in it can be read, not run",
        )
    if folder.database.exists() and folder.database_url.exists():
        yield Finding(
            "folder",
            Severity.WARNING,
            f"{folder.database_url.name} counts; "
            f"{folder.database.name} beside it is not used: move it away",
        )


def _check_leaves(
    folder: LedgerFolder, connection: Connection, *, is_full: bool
) -> Finding:
    rows = connection.execute(select(leaf_file).order_by(leaf_file.c.number)).all()
    states = {
        row.number: (row.state, row.digest)
        for row in connection.execute(select(leaf_file_state))
    }
    counts = {"plain": 0, "packed": 0, "pruned": 0}
    for number, n_bytes in rows:
        state, digest = states.get(number, ("plain", b""))
        counts[state] += 1
        try:
            problem = _leaf_problem(folder, number, n_bytes, state)
            if problem is None and is_full and state == "packed":
                problem = _digest_problem(folder, number, n_bytes, digest)
        except (LedgerError, OSError) as exc:
            problem = str(exc)
        if problem:
            return Finding("leaf files", Severity.FAULT, problem)
    told = ", ".join(f"{count} {state}" for state, count in counts.items())
    total = sum(n_bytes for _, n_bytes in rows)
    return Finding("leaf files", Severity.OK, f"{told}; {total} bytes of leaves")


def _leaf_problem(
    folder: LedgerFolder, number: int, n_bytes: int, state: str
) -> str | None:
    """Say what is wrong with a leaf file; None if nothing is."""
    plain, packed, pruned = (
        path(folder.leaves, number) for path in (leaf_path, packed_path, pruned_path)
    )
    if state == "pruned":
        return None if pruned.exists() else f"{pruned} is missing"
    if plain.exists():
        size = plain.stat().st_size
    elif packed.exists():
        size = packed_length(packed)
    else:
        return f"{plain} is missing" if n_bytes else None
    return None if size >= n_bytes else f"{plain} has {size} bytes, needs {n_bytes}"


def _digest_problem(
    folder: LedgerFolder, number: int, n_bytes: int, digest: bytes
) -> str | None:
    found = sha256()
    for at in range(0, n_bytes, _READ_BYTES):
        part = min(_READ_BYTES, n_bytes - at)
        found.update(read_leaves(folder.leaves, LeafPlace(number, at), part))
    if found.digest() == digest:
        return None
    return f"leaf file {number} is not what was packed"


def _check_log(reader: Reader, connection: Connection, *, is_full: bool) -> Finding:
    """Compare what is closed, the newest checkpoint stored, and the log's files."""
    n_closed = highest(connection, closing.c.log_index + 1)
    n_stored = highest(connection, checkpoint.c.size)
    log = LogReader(fetch_from(reader.folder.log))
    try:
        shown = _shown(reader, log)
        n_shown = shown.size if shown else 0
        if n_stored > n_closed or n_shown > n_stored:
            problem = (
                f"{n_closed} vouchers are closed, a checkpoint of {n_stored} is "
                f"stored, one of {n_shown} is shown: the database is older"
            )
            return Finding("log", Severity.FAULT, problem)
        if shown is not None:
            _check_tiles(reader.folder, log, shown, is_full=is_full)
    except (LedgerError, OSError) as exc:
        return Finding("log", Severity.FAULT, str(exc))
    is_late = n_closed - n_shown > _MAX_UNPUBLISHED
    severity = Severity.WARNING if is_late else Severity.OK
    return Finding("log", severity, f"{n_shown} of {n_closed} entries are published")


def _shown(reader: Reader, log: LogReader) -> Checkpoint | None:
    note = log.checkpoint()
    if note is None:
        return None
    key = log_key(reader.identity.network, reader.identity.ledger)
    return verify_checkpoint(note, key)


def _check_tiles(
    folder: LedgerFolder, log: LogReader, head: Checkpoint, *, is_full: bool
) -> None:
    """Read or measure every tile of a checkpoint.

    Raises:
        LedgerError: one is missing, cut off, or leads elsewhere.
    """
    for tile in tiles_of(head.size):
        if not _has_length(folder, tile):
            log.tile(tile)  # says what is wrong, or finds the one it grew into
    if is_full:
        log.tree(head.size, head.root)


def _has_length(folder: LedgerFolder, tile: Tile) -> bool:
    try:
        return (folder.log / tile.path).stat().st_size == tile.n_bytes
    except FileNotFoundError:
        return False
