"""Earnings of own receipts: sums of cumulative vouchers, by day and by state."""

import pytest

from ledger.claims import FiledStatus
from ledger.periods import parse_period
from ledger.voucher import Voucher
from mobile_worker.servings.own_copy import OwnCopy, OwnReceipt
from p2pmoe.contributor.earnings import earnings_document, earnings_in, earnings_of
from tests.support.ledger_world import paper_tab

DAY_US = 86_400_000_000
NOON_US = parse_period("2026-11-01").start_us + DAY_US // 2
STORED, REJECTED = FiledStatus.STORED, FiledStatus.REJECTED


@pytest.fixture(scope="module")
def vouchers():
    tab = paper_tab()
    return [tab.next(2 * n, 2 * n + 1)[0] for n in range(4)]


def receipt(signed, day: int, status=STORED, reason: str = "") -> OwnReceipt:
    return OwnReceipt(
        signed=signed,
        status=status,
        reason=reason,
        answered_us=NOON_US + day * DAY_US,
    )


def amount(signed) -> int:
    return Voucher.parse(signed.raw).amount_uc


def test_a_day_gets_what_its_vouchers_add(vouchers):
    own = [
        receipt(signed, day) for signed, day in zip(vouchers, (0, 0, 1, 2), strict=True)
    ]
    earned = earnings_of(own)
    assert list(earned.days) == ["2026-11-01", "2026-11-02", "2026-11-03"]
    assert [day.servings for day in earned.days.values()] == [4, 2, 2]
    assert earned.filed_uc == amount(vouchers[3])
    assert sum(day.amount_uc for day in earned.days.values()) == earned.filed_uc
    assert earned.servings == 8


def test_a_repeat_or_an_older_voucher_adds_nothing(vouchers):
    again = FiledStatus.DUPLICATE
    own = [
        receipt(vouchers[2], 0),
        receipt(vouchers[2], 1, again),
        receipt(vouchers[0], 1, again),
    ]
    earned = earnings_of(own)
    assert earned.filed_uc == amount(vouchers[2])
    assert earned.days["2026-11-02"].amount_uc == 0


def test_since_counts_what_came_then(vouchers):
    own = [receipt(signed, day) for day, signed in enumerate(vouchers)]
    earned = earnings_of(own, since_us=NOON_US + 2 * DAY_US)
    assert list(earned.days) == ["2026-11-03", "2026-11-04"]
    assert earned.filed_uc == amount(vouchers[3]) - amount(vouchers[1])
    assert earned.servings == 4


def test_what_was_rejected_is_told_with_its_reason(vouchers):
    own = [
        receipt(vouchers[0], 0),
        receipt(vouchers[1], 0, REJECTED, "grant"),
        receipt(vouchers[3], 0, REJECTED, ""),
    ]
    earned = earnings_of(own)
    assert earned.rejected == {"grant": 1, "no reason told": 1}
    assert earned.rejected_uc == amount(vouchers[3]) - amount(vouchers[0])
    covered = earnings_of([*own, receipt(vouchers[3], 1)])
    assert covered.rejected_uc == 0


def test_a_folder_and_its_document(tmp_path, vouchers):
    assert earnings_in(tmp_path / "none").days == {}
    copy = OwnCopy(tmp_path / "receipts")
    copy.add(receipt(vouchers[0], 0))
    document = earnings_document(earnings_in(tmp_path / "receipts"))
    (day,) = document["days"]
    assert (day["day"], day["servings"]) == ("2026-11-01", 2)
    assert document["filed_uc"] == amount(vouchers[0])
