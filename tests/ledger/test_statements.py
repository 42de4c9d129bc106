"""Statements: sums that agree, every voucher in one state, periods that meet."""

import dataclasses

import pytest

from ledger.accounts import AccountKind
from ledger.errors import NotFound
from ledger.periods import ALL_TIME, parse_period
from ledger.statements import balances, find_owner, receipts, statement, workers
from tests.support.ledger_world import Party, World

OCTOBER_US = 1_790_812_800_000_000  # 2026-10-01T00:00:00Z
SEPTEMBER, OCTOBER = parse_period("2026-09"), parse_period("2026-10")
BOTH = parse_period("2026-09..2026-11")


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def store(world, tmp_path):
    world.now_us = OCTOBER_US - 2
    with world.open(tmp_path) as store:
        yield store


def test_b38_each_receipt_is_in_one_period_and_adjacent_ones_sum(world, store):
    tab = world.tab(store.grant(world.order()).result(5))
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
    tab = world.tab(store.grant(world.order()).result(5))
    signed, block = tab.next(0)  # issued in September
    world.now_us = OCTOBER_US
    store.file(signed, block, tab.backbone.id).result(5)
    world.now_us = OCTOBER_US - 1_000_000  # the ledger's clock is put back
    tab.file(store, 1)
    with store.reader().session() as connection:
        assert statement(connection, world.worker.id, SEPTEMBER).earned_uc == 0
        october = statement(connection, world.worker.id, OCTOBER)
    assert october.earned_uc == tab.previous.amount_uc


def test_b33_every_voucher_in_exactly_one_state(world, store):
    tab = world.tab(store.grant(world.order()).result(5))
    other = Party("other worker")
    side = world.tab(
        store.grant(world.order(worker=other)).result(5), worker=other, tab=b"tab-0002"
    )
    tab.file(store, 0, 1, 2)
    side.file(store, 0)
    tab.file(store, 3)
    good = tab.sign(tab.previous)
    bad = dataclasses.replace(good, backbone_signature=bytes(64))
    store.file(bad, b"", tab.backbone.id).result(5)
    store.file(dataclasses.replace(good, raw=b"?"), b"", tab.backbone.id).result(5)
    store.file(good, b"", tab.backbone.id).result(5)  # a duplicate is no second line
    with store.reader().session() as connection:
        assert workers(connection) == [tab.worker.id, other.id]
        found = statement(connection, tab.worker.id, ALL_TIME)
        mine = receipts(connection, worker=tab.worker.id)
        everything = receipts(connection)
        in_october = receipts(connection, period=OCTOBER)
    (line,) = found.by_backbone
    assert (line.backbone, line.vouchers, line.servings) == (tab.backbone.id, 2, 4)
    assert line.earned_uc == found.earned_uc == found.closing_uc
    assert line.rows == tab.previous.rows
    (refused,) = found.rejected
    assert (refused.reason, refused.vouchers) == ("signature", 1)
    assert refused.claimed_uc == tab.previous.amount_uc
    assert [r.status for r in mine] == ["stored", "stored", "rejected"]
    assert sum(r.amount_uc for r in mine if r.status == "stored") == found.earned_uc
    assert len(everything) == 5
    unreadable = [r for r in everything if r.reason == "format"]
    assert [(r.tab, r.worker) for r in unreadable] == [(b"", b"")]
    assert in_october == []


def test_balances_now_and_as_of(world, store):
    tab = world.tab(store.grant(world.order(ceiling_uc=500)).result(5))
    tab.file(store, 0)
    first = tab.previous.amount_uc
    world.now_us = OCTOBER_US
    tab.file(store, 1)
    with store.reader().session() as connection:
        now = {b.kind: b.balance_uc for b in balances(connection)}
        then = balances(connection, as_of_us=OCTOBER_US, owner=world.worker.id)
    assert sum(now.values()) == 0
    assert now[AccountKind.WORKER_PENDING] == tab.previous.amount_uc
    assert now[AccountKind.CLIENT_RESERVED] == 500 - tab.previous.amount_uc
    assert [b.balance_uc for b in then] == [first]


def test_owners_by_their_first_digits(world, store):
    store.grant(world.order()).result(5)
    backbone = world.backbone.id
    with store.reader().session() as connection:
        assert find_owner(connection, backbone.hex()[:8]) == backbone
        assert find_owner(connection, backbone.hex().upper()) == backbone
        stranger = Party("stranger").id
        assert find_owner(connection, stranger.hex()) == stranger
        assert statement(connection, stranger, ALL_TIME).closing_uc == 0
        for text in ("", "xyz", backbone.hex()[:6], stranger.hex()[:10]):
            with pytest.raises(NotFound):
                find_owner(connection, text)
