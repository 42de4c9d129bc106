"""Write the log's folder anew from the database, when files of it are damaged or lost.

Contract: every head that was ever signed must come out again, root by root, or the
folder stays as it is. The new folder is complete and on the disk before it takes the
place of the old one, which is kept under another name. Nothing is signed: the newest
checkpoint is shown again with what witnesses said about it. The ledger must not run.
"""

import shutil
from pathlib import Path

from ledger.database import FolderLock, Reader, store_error
from ledger.errors import LogUnavailable, RemoteError
from ledger.folders import sync_folder
from ledger.log.checkpoint import Checkpoint, log_key, log_origin, verify_checkpoint
from ledger.log.folder import LogFolder
from ledger.log.records import checkpoint_note, rewrite_signed
from ledger.log.tiles import CHECKPOINT_PATH
from ledger.log.writing import LogWriter, check_not_later

__all__ = ["rebuild_log"]


def rebuild_log(reader: Reader) -> tuple[Checkpoint | None, Path | None]:
    """Write the log's folder anew.

    Returns:
        The newest head, None if none was ever signed; and where the old folder is now,
        None if there was none.

    Raises:
        FolderInUse: the ledger runs.
        DifferenceFound: the database does not lead to a root that was signed, or the
            old folder shows a head that the database does not know.
        StoreUnavailable: the disk refused; the old folder is as it was.
    """
    lock = FolderLock(reader.folder.lock)
    try:
        fresh = reader.folder.log.with_name("log.new")
        shutil.rmtree(fresh, ignore_errors=True)
        head = _write(reader, LogFolder(fresh))
        check_not_later(_shown(reader), head)
        return head, _replace(reader.folder.log, fresh) if head else None
    except OSError as exc:
        raise store_error(exc, reader.folder) from exc
    finally:
        lock.release()


def _shown(reader: Reader) -> Checkpoint | None:
    """Return the head that the old folder shows, if it can still be read."""
    key = log_key(reader.identity.network, reader.identity.ledger)
    try:
        note = LogFolder(reader.folder.log).checkpoint()
        return verify_checkpoint(note, key) if note else None
    except (RemoteError, LogUnavailable):
        return None


def _write(reader: Reader, folder: LogFolder) -> Checkpoint | None:
    """Write the files of every head that was signed."""
    writer = LogWriter(folder, log_origin(reader.identity.network))
    with reader.session() as connection:
        head = rewrite_signed(connection, writer, None)
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
