"""Statements: sums that agree, every voucher in one state, periods that meet."""

import dataclasses

import pytest
from sqlalchemy import insert

from ledger.accounts import TransferCode
from ledger.errors import DifferenceFound
from ledger.leaf import Leaf
from ledger.periods import ALL_TIME, parse_period
from ledger.schema import rejected
from ledger.statements import statement
from ledger.voucher import Voucher
from tests.support.books import Books
from tests.support.ledger_world import DAY_US, Party

OCTOBER_US = 1_790_812_800_000_000  # 2026-10-01T00:00:00Z
SEPTEMBER, OCTOBER = parse_period("2026-09"), parse_period("2026-10")
BOTH = parse_period("2026-09..2026-11")


@pytest.fixture
def store(world, tmp_path):
    world.now_us = OCTOBER_US - 2
    with world.open(tmp_path) as store:
        yield store


def test_b38_each_receipt_is_in_one_period_and_adjacent_ones_sum(world, store):
    tab = world.tab(store.grant(world.order()).result(60))
    amounts = []
    for now_us, serving in ((-2, 0), (-1, 1), (0, 2), (1, 3)):
        world.now_us = OCTOBER_US + now_us
        before = tab.previous.amount_uc if tab.previous else 0
        assert tab.file(store, serving).status == 0
        amounts.append(tab.previous.amount_uc - before)
    with store.reader().session() as connection:
        september, october, both = (
            statement(connection, world.worker.id, p)
            for p in (SEPTEMBER, OCTOBER, BOTH)
        )
    assert september.earned_uc == sum(amounts[:2])
    assert october.earned_uc == sum(amounts[2:])
    assert both.earned_uc == september.earned_uc + october.earned_uc
    assert (september.opening_uc, september.closing_uc) == (0, september.earned_uc)
    assert october.opening_uc == september.closing_uc
    assert october.closing_uc == both.closing_uc == sum(amounts)


def test_b38_a_late_receipt_goes_to_the_open_period_and_clocks_turn_only_on(
    world, store
):
    tab = world.tab(store.grant(world.order()).result(60))
    signed, block = tab.next(0)  # issued in September
    world.now_us = OCTOBER_US
    store.file(signed, block, tab.backbone.id).result(60)
    world.now_us = OCTOBER_US - 1_000_000  # the ledger's clock is put back
    tab.file(store, 1)
    with store.reader().session() as connection:
        assert statement(connection, world.worker.id, SEPTEMBER).earned_uc == 0
        october = statement(connection, world.worker.id, OCTOBER)
    assert october.earned_uc == tab.previous.amount_uc


def test_b33_every_voucher_in_exactly_one_state(world, store):
    tab = world.tab(store.grant(world.order()).result(60))
    other = Party("other worker")
    side = world.tab(
        store.grant(world.order(worker=other)).result(60), worker=other, tab=b"tab-0002"
    )
    tab.file(store, 0, 1, 2)
    side.file(store, 0)
    tab.file(store, 3)
    good = tab.sign(tab.previous)
    store.file(tab.forged(), b"", tab.worker.id).result(60)
    copy = dataclasses.replace(good, backbone_signature=bytes(64))
    store.file(copy, b"", tab.backbone.id).result(60)  # of one that was filed
    store.file(good, b"", tab.backbone.id).result(60)  # a duplicate is no second line
    with store.reader().session() as connection:
        found = statement(connection, tab.worker.id, ALL_TIME)
    (line,) = found.by_backbone
    assert (line.backbone, line.vouchers, line.servings) == (tab.backbone.id, 2, 4)
    assert line.earned_uc == found.earned_uc == found.closing_uc
    assert line.rows == tab.previous.rows
    refused, pending = sorted(found.states, key=lambda state: state.receipts)
    assert (refused.state, refused.why, refused.receipts) == (
        "rejected",
        "signature",
        1,
    )
    assert refused.amount_uc == tab.previous.amount_uc
    assert (pending.state, pending.why) == ("pending", "open")
    assert (pending.receipts, pending.amount_uc) == (2, found.earned_uc)


def test_a_stranger_is_owed_nothing(world, store):
    with store.reader().session() as connection:
        found = statement(connection, Party("stranger").id, ALL_TIME)
    assert (found.opening_uc, found.earned_uc, found.closing_uc) == (0, 0, 0)
    assert (found.states, found.checkpoint, found.closed_period) == ((), None, None)


def test_b37_scarcity_is_what_is_above_the_base_price(world, store):
    """Expert 1/3 costs 15 instead of 10, rounded down for a row, never for the sum."""
    tab = world.tab(store.grant(world.order()).result(60))
    dear = Leaf.parse(tab.leaf(13))
    assert (dear.layer, dear.expert) == (1, 3)
    tab.file(store, 0, 13)
    with store.reader().session() as connection:
        found = statement(connection, tab.worker.id, ALL_TIME)
    assert found.base_uc == 10 * tab.previous.rows
    assert found.scarcity_uc == 5 * dear.rows
    assert found.base_uc + found.scarcity_uc == found.earned_uc


@pytest.fixture
def books(world, tmp_path):
    """October: one voucher closed and paid, one closed with a part held."""
    world.now_us = OCTOBER_US
    with world.open(tmp_path) as store:
        issued = store.grant(world.order()).result(60)
        for n in range(2):
            world.tab(issued, tab=b"tab-%04d" % n).file(store, 0, 1, 2, 3)
    return Books(world, tmp_path)


def test_what_became_of_it_and_what_proves_it(world, books):
    worker = world.worker.id
    with books:
        net = books.close(1, OCTOBER_US + DAY_US, fee=5)
        books.close(2, OCTOBER_US + DAY_US, fee=5, held=20)
        books.settle(1, OCTOBER_US + 3 * DAY_US)
        books.settle(2, OCTOBER_US + 3 * DAY_US)
        books.checkpoint(1, OCTOBER_US)
        unproved = statement(books.connection, worker, OCTOBER)
        books.checkpoint(2, OCTOBER_US + DAY_US)
        books.checkpoint(3, OCTOBER_US + DAY_US)
        books.period("2026-10", OCTOBER.start_us, OCTOBER.end_us, late="one came late")
        at_us = OCTOBER.end_us + DAY_US
        payout_id = books.pay(worker, at_us, (1, "net", net), state="confirmed")
        october = statement(books.connection, worker, OCTOBER)
        november = statement(books.connection, worker, parse_period("2026-11"))
    assert unproved.checkpoint is None
    assert october.checkpoint.size == 2
    assert october.closed_period.name == "2026-10"
    assert october.closed_period.late == "one came late"
    assert october.moved_uc(TransferCode.FEE) == 10
    assert october.flows.closing.available_uc == 2 * net - 20
    assert october.flows.closing.held_uc == 20
    assert october.content_hash == unproved.content_hash
    assert [(each.state, each.why) for each in october.states] == [
        ("held", "holdback"),
        ("paid", ""),
    ]
    assert (november.earned_uc, november.states) == (0, ())
    assert november.moved_uc(TransferCode.PAID) == net
    assert [(each.id, each.state) for each in november.payouts] == [
        (payout_id, "confirmed")
    ]
    assert november.closed_period is None


def test_a_late_receipt_is_told(world, store):
    tab = world.tab(store.grant(world.order()).result(60))
    signed, block = tab.next(0)  # issued in September
    world.now_us = OCTOBER_US
    store.file(signed, block, tab.backbone.id).result(60)
    tab.file(store, 1)
    with store.reader().session() as connection:
        found = statement(connection, world.worker.id, OCTOBER)
        both = statement(connection, world.worker.id, BOTH)
    assert (found.late_receipts, found.late_uc) == (1, signed_amount(signed))
    assert both.late_receipts == 0


def signed_amount(signed):
    return Voucher.parse(signed.raw).amount_uc


def test_receipts_that_do_not_add_up_are_no_statement(world, books):
    with books:
        books.cook("filing", "amount_uc = amount_uc + 1")
        with pytest.raises(DifferenceFound, match="receipts of"):
            statement(books.connection, world.worker.id, ALL_TIME)


def test_b37_what_is_claimed_in_vain_may_pass_any_sum(world, books):
    """A thousand refused claims of 2^53 each are more than SQL can add."""
    claims = [
        {
            "digest": n.to_bytes(32, "big"),
            "reason": "amount",
            "detail": "more than anyone has",
            "worker": world.worker.id,
            "backbone": world.backbone.id,
            "amount_uc": 2**53 - 1,
            "raw": b"claim %d" % n,
            "worker_signature": b"",
            "backbone_signature": b"",
            "filed_by": world.worker.id,
            "seen_us": OCTOBER_US,
        }
        for n in range(1100)
    ]
    with books:
        before = statement(books.connection, world.worker.id, OCTOBER)
        books.connection.execute(insert(rejected), claims)
        found = statement(books.connection, world.worker.id, OCTOBER)
    (claimed,) = [line for line in found.states if line.why == "amount"]
    assert (claimed.receipts, claimed.amount_uc) == (1100, 1100 * (2**53 - 1))
    assert claimed.amount_uc > 2**63
    assert found.earned_uc == before.earned_uc  # B33: a claim is no pay
