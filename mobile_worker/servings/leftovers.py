"""What an earlier run left in the spool, sorted for this one to go on with; no I/O.

Rules: of each grant's use and each tab's mark the newest record counts, the others are
done with. Nothing is kept for more than 90 days, but the use of a grant still counts
when it is read for the last time. A record that is no known other one is a voucher.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ledger.spool import SpoolEntry
from ledger.voucher import Voucher
from mobile_worker.servings.allowance import GrantUse
from mobile_worker.servings.chain import Settled
from mobile_worker.servings.filing import SpoolKind, unpack_settled
from mobile_worker.servings.finals import TabMark

__all__ = ["Leftovers", "sort_leftovers"]

_KEEP_US = 90 * 86_400 * 1_000_000


@dataclass(slots=True, kw_only=True)
class Leftovers:
    """Everything of a spool, by what becomes of it; numbers are ids of its entries."""

    uses: list[GrantUse] = field(default_factory=list)
    marks: dict[bytes, TabMark] = field(default_factory=dict)  # by tab and epoch
    opened: dict[bytes, TabMark] = field(default_factory=dict)  # by tab
    settled: list[tuple[int, Settled]] = field(default_factory=list)  # to be filed
    proposals: list[tuple[int, Settled]] = field(default_factory=list)  # to be signed
    latest: dict[tuple[SpoolKind, bytes], int] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)  # to be released


def sort_leftovers(entries: Iterable[SpoolEntry], now_us: int) -> Leftovers:
    """Sort a spool's entries, the oldest first.

    Raises:
        FormatRefused: a record does not parse.
    """
    left = Leftovers()
    for entry in entries:
        if entry.kind == SpoolKind.GRANT_USE:
            until_us = _add_use(left, entry)
        elif entry.kind == SpoolKind.TAB_MARK:
            until_us = _add_mark(left, entry, now_us)
        elif entry.kind == SpoolKind.TAB_OPENED:
            mark = TabMark.parse(entry.payload)
            left.opened[mark.tab] = mark
            until_us = mark.issued_us + _KEEP_US
        else:
            until_us = _add_voucher(left, entry, now_us)
        if until_us < now_us:
            left.done.add(entry.id)
    return left


def _add_use(left: Leftovers, entry: SpoolEntry) -> int:
    use = GrantUse.parse(entry.payload)
    left.uses.append(use)
    _replace(left, (SpoolKind.GRANT_USE, use.name), entry.id)
    return use.expiry_us + _KEEP_US


def _add_mark(left: Leftovers, entry: SpoolEntry, now_us: int) -> int:
    mark = TabMark.parse(entry.payload)
    until_us = mark.issued_us + _KEEP_US
    if until_us >= now_us:
        left.marks[mark.key] = mark
        _replace(left, (SpoolKind.TAB_MARK, mark.key), entry.id)
    return until_us


def _add_voucher(left: Leftovers, entry: SpoolEntry, now_us: int) -> int:
    settled = unpack_settled(entry.payload)
    until_us = Voucher.parse(settled.raw).issued_us + _KEEP_US
    if until_us >= now_us:
        is_signed = entry.kind == SpoolKind.SETTLED
        (left.settled if is_signed else left.proposals).append((entry.id, settled))
    return until_us


def _replace(left: Leftovers, key: tuple[SpoolKind, bytes], entry: int) -> None:
    """Make a record the newest of its key; the one before is done with."""
    if key in left.latest:
        left.done.add(left.latest[key])
    left.latest[key] = entry
