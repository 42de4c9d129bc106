"""What `p2pmoe uninstall --purge` removes of a folder: what a worker made there.

Names that a worker does not write are left, and the folder with them: `--data` may have
named any folder. What would be lost with it is told before.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from ledger.errors import LedgerError
from ledger.spool import Spool
from mobile_worker.governor.limits_file import LIMITS_FILE
from mobile_worker.governor.remembered import RECORD_FILE
from mobile_worker.servings.filing import SpoolKind
from p2pmoe.contributor.page_file import PAGE_FILE
from p2pmoe.local_socket.address import SOCKET_NAME

__all__ = ["Loss", "loss_of", "purge"]

_FOLDERS = ("shards", "spool", "receipts")
_FILES = (
    "identity",
    LIMITS_FILE,
    RECORD_FILE,
    PAGE_FILE,
    SOCKET_NAME,
    "last-leases",
    "worker.log",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What goes with a folder. n_unfiled: vouchers that the ledger does not have."""

    has_key: bool
    n_unfiled: int


def loss_of(folder: Path) -> Loss:
    """Return what would be lost with a folder that no worker holds."""
    n_unfiled = 0
    if (folder / "spool").is_dir():
        try:
            with Spool(folder / "spool") as spool:
                n_unfiled = sum(
                    entry.kind == SpoolKind.SETTLED for entry in spool.entries()
                )
        except LedgerError:
            n_unfiled = 1  # a damaged one may hold some
    return Loss(has_key=(folder / "identity").exists(), n_unfiled=n_unfiled)


def purge(folder: Path) -> bool:
    """Remove what a worker made; True if the folder is gone with it.

    Raises:
        OSError: something cannot be removed.
    """
    for name in _FOLDERS:
        path = folder / name
        if path.is_symlink():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        return not folder.exists()
    return True
