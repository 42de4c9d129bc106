"""What a worker's folder says while no worker runs on it: read only, and offline.

The same names as a running worker's report where they mean the same. What cannot be
read is told in its line; it keeps nothing else from being told.
"""

from collections.abc import Callable
from pathlib import Path

from ledger.amounts import format_credits
from ledger.errors import LedgerError
from mobile_worker.errors import WorkerError
from mobile_worker.governor.limits_file import LIMITS_FILE, read_limits
from mobile_worker.servings.own_copy import read_receipts
from mobile_worker.session.identity import read_to_sign
from p2pmoe.contributor.earnings import earnings_of
from p2pmoe.contributor.report import Line, WorkerReport
from p2pmoe.contributor.shards_here import list_shards

__all__ = ["report_at_rest"]

_MEBIBYTE = 1 << 20


def report_at_rest(folder: Path, why: str) -> WorkerReport:
    """Return the report of a folder; `why` says how it is known that none runs."""
    worker = _worker(folder)
    n_bytes, shards = _shards(folder)
    filed_uc, earned = _earned(folder)
    lines = (
        Line("state", f"not running: {why}"),
        Line("worker", worker or f"no key in {folder} yet"),
        Line("shards", shards),
        Line("earned", earned),
        Line("limits", _limits(folder)),
    )
    fields = {
        "state": "not_running",
        "reason": why,
        "worker": worker,
        "shard_bytes": n_bytes,
        "filed_uc": filed_uc,
    }
    return WorkerReport(lines=lines, fields=fields)


def _worker(folder: Path) -> str:
    try:
        return read_to_sign(folder / "identity").peer_id.hex()
    except WorkerError:
        return ""


def _shards(folder: Path) -> tuple[int, str]:
    def read() -> tuple[int, str]:
        shards = list_shards(folder / "shards")
        n_bytes = sum(each.n_bytes for each in shards)
        return n_bytes, f"{len(shards)} here, {n_bytes / _MEBIBYTE:.1f} MB"

    return _told(read)


def _earned(folder: Path) -> tuple[int, str]:
    def read() -> tuple[int, str]:
        earned = earnings_of(read_receipts(folder / "receipts"))
        text = f"{format_credits(earned.filed_uc)} credits filed with the ledger"
        if earned.rejected:
            text += f", {sum(earned.rejected.values())} vouchers rejected by it"
        return earned.filed_uc, text

    return _told(read)


def _limits(folder: Path) -> str:
    _, text = _told(lambda: (0, f"preset {read_limits(folder / LIMITS_FILE).preset}"))
    return text


def _told(read: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    try:
        return read()
    except (OSError, LedgerError, WorkerError) as error:
        return 0, f"cannot be read: {error}"
