"""Filing with the ledger: merged, one at a time, until acknowledged."""

import itertools
from dataclasses import replace

import pytest

from ledger.claims import FiledStatus
from ledger.errors import FormatRefused
from ledger.leaf import LEAF_BYTES
from ledger.voucher import sign_voucher, voucher_hash
from mobile_worker.servings.chain import Settled
from mobile_worker.servings.exposure import Exposure
from mobile_worker.servings.filing import (
    FilingQueue,
    pack_proposal,
    pack_settled,
    unpack_settled,
)
from mobile_worker.servings.tab import CallHashes, Tab
from tests.support.money import NOW_US, TAB, Money, dispatch_of


def settled_vouchers(n: int, money: Money, tab_id: bytes = TAB) -> list[Settled]:
    tab = Tab(money.terms(tab=tab_id), Exposure())
    tab.allow(money.allowance(money.prices()))
    settled = []
    for serving in range(n):
        taken = tab.admit(dispatch_of(serving), NOW_US)
        tab.computed(taken, [CallHashes(b"x" * 16, b"o" * 16)], 0.0)
        tab.accept([(serving, serving)], 0.0)
        (proposal,) = tab.propose(10.0, NOW_US, money.worker.sign)
        signature = sign_voucher(proposal.raw, money.backbone.sign)
        settled.append(tab.countersigned(proposal.name, signature))
    return settled


def test_vouchers_that_wait_together_are_filed_as_the_newest() -> None:
    queue = FilingQueue()
    vouchers = settled_vouchers(4, Money())
    queue.add(1, vouchers[0])
    (first,) = queue.due(0.0)
    assert (first.voucher, first.leaves) == (vouchers[0].raw, vouchers[0].leaves)
    for entry, settled in enumerate(vouchers[1:], 2):
        queue.add(entry, settled)
    assert queue.due(1.0) == []
    outcome = queue.filed(voucher_hash(first.voucher), FiledStatus.STORED, "", 1.0)
    assert outcome is not None
    assert (outcome.entries, outcome.rejected) == ((1,), "")
    (merged,) = queue.due(1.0)
    assert merged.voucher == vouchers[3].raw
    assert merged.backbone_signature == vouchers[3].backbone_signature
    assert merged.leaves == b"".join(v.leaves for v in vouchers[1:])
    assert len(merged.leaves) == 3 * LEAF_BYTES
    name = voucher_hash(merged.voucher)
    outcome = queue.filed(name, FiledStatus.DUPLICATE, "", 2.0)
    assert outcome is not None
    assert outcome.entries == (2, 3, 4)
    assert len(queue) == 0
    assert queue.filed(name, FiledStatus.STORED, "", 2.0) is None


def test_without_an_answer_it_is_sent_again_with_growing_pauses() -> None:
    queue = FilingQueue()
    one, two = settled_vouchers(2, Money())
    queue.add(7, one)
    (first,) = queue.due(0.0)
    queue.add(8, two)
    sent = [at for at in range(1, 400) if queue.due(float(at)) == [first]]
    assert sent[:5] == [3, 9, 21, 45, 93]
    assert max(b - a for a, b in itertools.pairwise(sent)) <= 60
    queue.hurry()
    assert queue.due(400.0) == [first]


def test_retry_keeps_it_and_a_rejection_ends_it_with_the_reason() -> None:
    queue = FilingQueue()
    (one,) = settled_vouchers(1, Money())
    queue.add(7, one)
    queue.due(0.0)
    name = voucher_hash(one.raw)
    assert queue.filed(name, FiledStatus.RETRY, "busy", 0.5) is None
    assert queue.filed(name, 77, "unknown status", 0.5) is None
    assert len(queue) == 1
    outcome = queue.filed(name, FiledStatus.REJECTED, "grant is closed", 1.0)
    assert outcome is not None
    assert (outcome.entries, outcome.rejected) == ((), "grant is closed")
    assert len(queue) == 0
    assert queue.due(1000.0) == []
    assert queue.filed(b"?" * 32, FiledStatus.STORED, "", 1.0) is None


def test_few_filings_fly_at_once() -> None:
    queue, money = FilingQueue(), Money()
    for number in range(20):
        (settled,) = settled_vouchers(1, money, bytes([number]) * 8)
        queue.add(number, settled)
    assert len(queue.due(0.0)) == 8
    assert queue.due(0.1) == []


def test_what_is_spooled_reads_back() -> None:
    (settled,) = settled_vouchers(1, Money())
    payload = pack_settled(settled)
    assert unpack_settled(payload) == settled
    for cut in (0, 3, 4, len(settled.raw), len(payload) - LEAF_BYTES - 1):
        with pytest.raises(FormatRefused):
            unpack_settled(payload[:cut])
    with pytest.raises(FormatRefused):
        FilingQueue().add(1, unpack_settled(b"\0" * 132))


def test_a_proposal_is_spooled_without_the_backbones_signature() -> None:
    money = Money()
    tab = Tab(money.terms(), Exposure())
    tab.allow(money.allowance(money.prices()))
    taken = tab.admit(dispatch_of(), NOW_US)
    tab.computed(taken, [CallHashes(b"x" * 16, b"o" * 16)], 0.0)
    tab.accept([(0, 0)], 0.0)
    (proposal,) = tab.propose(10.0, NOW_US, money.worker.sign)
    read = unpack_settled(pack_proposal(proposal))
    assert (read.raw, read.leaves) == (proposal.raw, proposal.leaves)
    assert read.backbone_signature == bytes(64)


def test_vouchers_under_different_grants_are_not_merged() -> None:
    money = Money()
    tab = Tab(money.terms(), Exposure())
    queue = FilingQueue()
    for serving in range(6):
        if serving in {0, 4}:
            ceiling_uc = 40 if serving == 0 else 1000
            allowance = money.allowance(
                money.prices(), ceiling_uc=ceiling_uc, serial=serving
            )
            tab.allow(allowance)
        taken = tab.admit(dispatch_of(serving), NOW_US)
        tab.computed(taken, [CallHashes(b"x" * 16, b"o" * 16)], 0.0)
        tab.accept([(serving, serving)], 0.0)
        (proposal,) = tab.propose(10.0, NOW_US, money.worker.sign)
        signature = sign_voucher(proposal.raw, money.backbone.sign)
        queue.add(serving, tab.countersigned(proposal.name, signature))
    (first,) = queue.due(0.0)
    assert len(first.leaves) == 4 * LEAF_BYTES
    outcome = queue.filed(voucher_hash(first.voucher), FiledStatus.STORED, "", 0.0)
    assert outcome is not None
    assert outcome.entries == (0, 1, 2, 3)
    (second,) = queue.due(0.0)
    assert len(second.leaves) == 2 * LEAF_BYTES


def test_a_final_without_the_worker_is_filed_by_itself() -> None:
    """It is held, so what both signed must not wait with it."""
    queue = FilingQueue()
    first, second, final = settled_vouchers(3, Money())
    queue.add(1, first)
    queue.add(2, second)
    queue.add(3, replace(final, worker_signature=b""))
    (both,) = queue.due(0.0)
    assert both.voucher == second.raw
    queue.filed(voucher_hash(both.voucher), FiledStatus.STORED, "", 0.0)
    (alone,) = queue.due(0.0)
    assert (alone.voucher, alone.worker_signature) == (final.raw, b"")
    assert alone.leaves == final.leaves
