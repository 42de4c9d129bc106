"""What a worker's own receipts say it earned, by day and by what became of them.

Vouchers are cumulative: of a tab and price epoch the largest filed amount is what was
earned, and each voucher's day gets what it adds to those before. A rejected voucher
counts as rejected only as far as none that was filed covers it. Days are UTC, of the
ledger's answer. Only `earnings_in` reads files.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ledger.amounts import format_credits
from ledger.claims import FiledStatus
from ledger.periods import format_us
from ledger.voucher import Voucher, VoucherKey
from mobile_worker.servings.own_copy import OwnReceipt, read_receipts

__all__ = ["Day", "Earnings", "earnings_document", "earnings_in", "earnings_of"]


@dataclass(slots=True)
class Day:
    """What one day added."""

    servings: int = 0
    amount_uc: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Earnings:
    """rejected: how many vouchers, by reason; rejected_uc: what none covers."""

    days: dict[str, Day]
    servings: int
    filed_uc: int
    rejected_uc: int
    rejected: dict[str, int]


@dataclass(slots=True)
class _Tab:
    servings: int = 0
    filed_uc: int = 0
    claimed_uc: int = 0  # with what was rejected


@dataclass(slots=True)
class _Books:
    tabs: dict[VoucherKey, _Tab] = field(default_factory=dict)
    days: dict[str, Day] = field(default_factory=dict)
    rejected: Counter[str] = field(default_factory=Counter)


def earnings_of(receipts: Iterable[OwnReceipt], since_us: int = 0) -> Earnings:
    """Return the sums of receipts, oldest first, that were answered since then.

    Raises:
        FormatRefused: a receipt's voucher does not parse.
    """
    books = _Books()
    before_uc = 0
    for receipt in receipts:
        if receipt.answered_us < since_us:
            before_uc += _add(_Books(tabs=books.tabs), receipt)
        else:
            _add(books, receipt)
    filed_uc = sum(tab.filed_uc for tab in books.tabs.values())
    claimed_uc = sum(tab.claimed_uc for tab in books.tabs.values())
    return Earnings(
        days=dict(sorted(books.days.items())),
        servings=sum(day.servings for day in books.days.values()),
        filed_uc=filed_uc - before_uc,
        rejected_uc=claimed_uc - filed_uc,
        rejected=dict(sorted(books.rejected.items())),
    )


def _add(books: _Books, receipt: OwnReceipt) -> int:
    """Add one receipt; return by how much what was filed grew."""
    voucher = Voucher.parse(receipt.signed.raw)
    tab = books.tabs.setdefault(voucher.key, _Tab())
    tab.claimed_uc = max(tab.claimed_uc, voucher.amount_uc)
    if receipt.status is FiledStatus.REJECTED:
        books.rejected[receipt.reason or "no reason told"] += 1
        return 0
    grown_uc = max(0, voucher.amount_uc - tab.filed_uc)
    more = max(0, voucher.leaves - tab.servings)
    tab.filed_uc += grown_uc
    tab.servings += more
    day = books.days.setdefault(format_us(receipt.answered_us)[:10], Day())
    day.servings += more
    day.amount_uc += grown_uc
    return grown_uc


def earnings_in(folder: Path, since_us: int = 0) -> Earnings:
    """Return the sums of a folder of own receipts; none where there is no folder.

    Raises:
        StoreUnavailable, FormatRefused: a file of it cannot be read.
    """
    return earnings_of(read_receipts(folder), since_us)


def earnings_document(earned: Earnings) -> dict[str, object]:
    """Return sums as they are told in JSON."""
    return {
        "days": [
            {
                "day": name,
                "servings": day.servings,
                "amount_uc": day.amount_uc,
                "amount": format_credits(day.amount_uc),
            }
            for name, day in earned.days.items()
        ],
        "servings": earned.servings,
        "filed_uc": earned.filed_uc,
        "filed": format_credits(earned.filed_uc),
        "rejected_uc": earned.rejected_uc,
        "rejected": earned.rejected,
    }
