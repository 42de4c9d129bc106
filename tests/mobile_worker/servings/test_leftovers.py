"""What of an earlier run's spool still counts, and what is done with."""

import dataclasses

import pytest

from ledger.errors import FormatRefused
from ledger.spool import SpoolEntry
from ledger.voucher import Voucher
from mobile_worker.servings.allowance import GrantUse
from mobile_worker.servings.chain import Settled
from mobile_worker.servings.filing import SpoolKind, pack_settled
from mobile_worker.servings.finals import TabMark
from mobile_worker.servings.leftovers import Leftovers, sort_leftovers
from tests.support.ledger_world import DAY_US, TabSide, paper_tab


@pytest.fixture
def tab() -> TabSide:
    return paper_tab()


def sort(now_us: int, *records: tuple[SpoolKind, bytes]) -> Leftovers:
    """Sort records as entries 0, 1, 2 and so on."""
    entries = (
        SpoolEntry(number, kind, payload)
        for number, (kind, payload) in enumerate(records)
    )
    return sort_leftovers(entries, now_us)


def test_of_each_grant_and_tab_the_newest_record_counts(tab: TabSide) -> None:
    now_us = tab.world.now_us
    first = GrantUse(name=b"a" * 32, claimed_uc=5, expiry_us=now_us)
    second = dataclasses.replace(first, claimed_uc=9)
    other = GrantUse(name=b"b" * 32, claimed_uc=1, expiry_us=now_us)
    mark = TabMark.of(tab.draft(), b"n" * 32)
    higher = dataclasses.replace(mark, number=mark.number + 1)
    left = sort(
        now_us,
        (SpoolKind.GRANT_USE, first.pack()),
        (SpoolKind.TAB_MARK, mark.pack()),
        (SpoolKind.GRANT_USE, second.pack()),
        (SpoolKind.GRANT_USE, other.pack()),
        (SpoolKind.TAB_MARK, higher.pack()),
    )
    assert left.uses == [first, second, other]  # in order: the last one holds
    assert left.marks == {mark.key: higher}
    assert left.done == {0, 1}
    assert left.latest == {
        (SpoolKind.GRANT_USE, b"a" * 32): 2,
        (SpoolKind.GRANT_USE, b"b" * 32): 3,
        (SpoolKind.TAB_MARK, mark.key): 4,
    }


def test_vouchers_are_filed_or_signed(tab: TabSide) -> None:
    signed, block = tab.next(0, 1)
    settled = Settled(
        raw=signed.raw,
        worker_signature=signed.worker_signature,
        backbone_signature=signed.backbone_signature,
        leaves=block,
    )
    payload = pack_settled(settled)
    left = sort(
        tab.world.now_us,
        (SpoolKind.PROPOSAL, payload),
        (SpoolKind.SETTLED, payload),
    )
    assert left.proposals == [(0, settled)]
    assert left.settled == [(1, settled)]
    assert not left.done


def test_nothing_is_kept_for_more_than_90_days(tab: TabSide) -> None:
    now_us = tab.world.now_us
    signed, block = tab.next(0)
    settled = Settled(
        raw=signed.raw,
        worker_signature=signed.worker_signature,
        backbone_signature=signed.backbone_signature,
        leaves=block,
    )
    mark = TabMark.of(Voucher.parse(signed.raw), b"n" * 32)
    use = GrantUse(name=b"a" * 32, claimed_uc=5, expiry_us=now_us)
    records = (
        (SpoolKind.SETTLED, pack_settled(settled)),
        (SpoolKind.TAB_MARK, mark.pack()),
        (SpoolKind.TAB_OPENED, TabMark.opening(tab.terms, now_us).pack()),
        (SpoolKind.GRANT_USE, use.pack()),
    )
    assert not sort(now_us + 90 * DAY_US, *records).done
    late = sort(now_us + 90 * DAY_US + 1, *records)
    assert late.done == {0, 1, 2, 3}
    assert late.settled == []
    assert late.marks == {}
    assert late.uses == [use]  # counted once more, then let go of


def test_a_record_that_is_none_is_refused(tab: TabSide) -> None:
    for kind in SpoolKind:
        with pytest.raises(FormatRefused):
            sort(tab.world.now_us, (kind, b"x"))
