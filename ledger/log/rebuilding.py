"""Write the log's folder anew from the database, when files of it are damaged or lost.

Contract: every head that was ever signed must come out again, root by root, or the
folder stays as it is. The new folder is complete and on the disk before it takes the
place of the old one, which is kept under another name. Nothing is signed: the newest
checkpoint is shown again with what witnesses said about it. The ledger must not run.
"""

import shutil
from pathlib import Path

from sqlalchemy import select

from ledger.database import FolderLock, Reader, store_error
from ledger.errors import DifferenceFound
from ledger.folders import sync_folder
from ledger.log.checkpoint import Checkpoint, log_origin
from ledger.log.folder import LogFolder
from ledger.log.publisher import checkpoint_note, read_entries
from ledger.log.tiles import CHECKPOINT_PATH, TILE_WIDTH
from ledger.log.writing import LogWriter
from ledger.schema_closing import checkpoint

__all__ = ["rebuild_log"]


def rebuild_log(reader: Reader) -> tuple[Checkpoint | None, Path | None]:
    """Write the log's folder anew.

    Returns:
        The newest head, None if none was ever signed; and where the old folder is now,
        None if there was none.

    Raises:
        FolderInUse: the ledger runs.
        DifferenceFound: the database does not lead to a root that was signed.
        StoreUnavailable: the disk refused; the old folder is as it was.
    """
    lock = FolderLock(reader.folder.lock)
    try:
        fresh = reader.folder.log.with_name("log.new")
        shutil.rmtree(fresh, ignore_errors=True)
        head = _write(reader, LogFolder(fresh))
        return head, _replace(reader.folder.log, fresh) if head else None
    except OSError as exc:
        raise store_error(exc, reader.folder) from exc
    finally:
        lock.release()


def _write(reader: Reader, folder: LogFolder) -> Checkpoint | None:
    """Write every head's tiles in turn, so that each older one can be shown too."""
    writer = LogWriter(folder, log_origin(reader.identity.network))
    head: Checkpoint | None = None
    with reader.session() as connection:
        signed = connection.execute(
            select(checkpoint.c.size, checkpoint.c.root).order_by(checkpoint.c.size)
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
        note = checkpoint_note(connection)
    if note is not None:
        folder.put(CHECKPOINT_PATH, note.pack())
        folder.sync()
    return head


def _replace(old: Path, fresh: Path) -> Path | None:
    kept = _free_name(old) if old.exists() else None
    if kept is not None:
        old.rename(kept)
    fresh.rename(old)
    sync_folder(old.parent)
    return kept


def _free_name(old: Path) -> Path:
    n = 1
    while old.with_name(f"log.damaged-{n}").exists():
        n += 1
    return old.with_name(f"log.damaged-{n}")
