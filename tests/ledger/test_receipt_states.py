"""Every receipt in exactly one state, and the states' sums are the sum of all."""

import dataclasses

import pytest

from ledger.periods import ALL_TIME, Period
from ledger.receipt_states import (
    ReceiptState,
    StateLine,
    receipts,
    sums_by_state,
    why_sentence,
)
from tests.support.books import Books
from tests.support.ledger_world import NOVEMBER_US, Party, World

# Each voucher's way: what is done with it, and the state and reason it must be in.
WAYS = [
    ("open", "pending", "open"),
    ("close", "pending", "window"),
    ("dispute", "held", "dispute"),
    ("reverse", "rejected", "reversed"),
    ("settle", "pending", "available"),
    ("settle prepared", "pending", "payout"),
    ("settle unresolved", "pending", "payout"),
    ("settle failed", "pending", "available"),
    ("settle void confirmed", "paid", ""),
    ("held settle confirmed", "held", "holdback"),
    ("held settle unhold", "pending", "available"),
    ("held settle unhold confirmed", "pending", "available"),  # the holdback is not
    ("held settle forfeit confirmed", "paid", "forfeited"),
    ("held settle unhold confirmed both", "paid", ""),
]


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    """One world with a voucher on each way, and refused and one-sided ones."""
    path = tmp_path_factory.mktemp("ledger")
    world = World()
    with world.open(path) as store:
        issued = store.grant(world.order()).result(5)
        for n, _ in enumerate(WAYS):
            tab = world.tab(issued, tab=b"tab-%04d" % n)
            tab.file(store, 0, 1, 2, 3)
        for serving in (4, 5):  # a second receipt of the last one
            tab.file(store, serving)
        good = tab.sign(tab.previous)
        store.file(
            dataclasses.replace(good, backbone_signature=bytes(64)),
            b"",
            world.backbone.id,
        ).result(5)
        store.file(dataclasses.replace(good, raw=b"?"), b"", world.backbone.id).result(
            5
        )
        other = Party("other")
        issued = store.grant(world.order(worker=other)).result(5)
        world.tab(issued, worker=other, tab=b"tab-9999").file(store, 0)
    books = Books(world, path)
    with books:
        books.period("2026-11", 0, 1)
        attempt = 0
        for n, (way, _, _) in enumerate(WAYS):
            attempt = walk(books, n + 1, way.split(), attempt)
        books.one_sided(1000, NOVEMBER_US)
        books.one_sided(70, NOVEMBER_US, "expired")
        books.one_sided(9999, NOVEMBER_US, "signed")
    return books


def walk(books: Books, voucher_id: int, steps: list[str], attempt: int) -> int:
    if steps == ["open"]:
        return attempt
    held = 20 if "held" in steps else 0
    at_us = NOVEMBER_US + 10
    net = books.close(voucher_id, at_us, fee=5, held=held)
    if "dispute" in steps:
        books.dispute(voucher_id, at_us)
    for step in ("settle", "reverse", "unhold", "forfeit"):
        if step in steps:
            books.settle(voucher_id, at_us + 10, step)
    for state in ("prepared", "unresolved", "failed", "void", "confirmed"):
        if state in steps:
            attempt += 1
            items = [(voucher_id, "net", net)]
            if "both" in steps:
                items.append((voucher_id, "holdback", held))
            worker = books.world.worker.id
            books.pay(worker, at_us + 20, *items, state=state, attempt=attempt)
    return attempt


@pytest.mark.parametrize("n", range(len(WAYS)), ids=[way[0] for way in WAYS])
def test_each_way_ends_in_its_state(books, n):
    with books.reader().session() as connection:
        lines = receipts(connection, worker=books.world.worker.id)
    _, state, why = WAYS[n]
    of_tab = [
        (line.state, line.why)
        for line in lines
        if line.tab == b"tab-%04d" % n and line.why != "signature"
    ]
    assert set(of_tab) == {(state, why)}
    assert len(of_tab) == (3 if n == len(WAYS) - 1 else 1)


def test_b33_sums_of_states_are_the_sum_of_all(books):
    worker = books.world.worker.id
    with books.reader().session() as connection:
        lines = receipts(connection, worker=worker)
        states = sums_by_state(connection, ALL_TIME, worker)
        everyone = receipts(connection)
    found: dict[tuple[str, str], list[int]] = {}
    for line in lines:
        entry = found.setdefault((line.state, line.why), [0, 0, 0])
        for n, added in enumerate((1, line.servings, line.amount_uc)):
            entry[n] += added
    assert {
        (state.state, state.why): [state.receipts, state.servings, state.amount_uc]
        for state in states
    } == found
    assert len(lines) == len(WAYS) + 2 + 1 + 2
    assert len({(line.voucher_hash, line.why) for line in lines}) == len(lines)
    earned = sum(state.amount_uc for state in states if state.is_earned)
    claimed = sum(state.amount_uc for state in states if not state.is_earned)
    assert earned + claimed == sum(line.amount_uc for line in lines)
    assert [(line.state, line.why) for line in everyone if not line.worker] == [
        ("rejected", "format")
    ]
    assert len(everyone) == len(lines) + 2


def test_one_sided_ones_count_once(books):
    with books.reader().session() as connection:
        states = sums_by_state(connection, ALL_TIME, books.world.worker.id)
    amounts = {(state.state, state.why): state.amount_uc for state in states}
    assert amounts["held", "one-sided"] == 1000
    assert amounts["rejected", "expired"] == 70
    assert 9999 not in amounts.values()  # signed since: it is filed


def test_periods_do_not_change_states(books):
    worker = books.world.worker.id
    with books.reader().session() as connection:
        (none, some, both) = (
            sums_by_state(connection, Period(*span), worker)
            for span in (
                (0, NOVEMBER_US),
                (NOVEMBER_US, NOVEMBER_US + 1),
                (0, NOVEMBER_US + 1),
            )
        )
        assert receipts(connection, period=Period(0, NOVEMBER_US)) == []
    assert none == ()
    assert some == both


def test_every_state_says_why(books):
    with books.reader().session() as connection:
        lines = receipts(connection)
    sentences = {(line.state, line.why): why_sentence(line) for line in lines}
    assert all(sentences.values())
    assert sentences["pending", "window"].endswith("until 2026-11-01T00:00:00.001010Z")
    assert sentences["held", "holdback"].endswith("until 2026-11-01T00:00:00.009010Z")
    assert sentences["rejected", "signature"].startswith("refused: ")
    assert not any(
        "refused" in text
        for key, text in sentences.items()
        if key[1] != "signature" and key[1] != "format"
    )


@pytest.mark.parametrize(
    ("state", "why", "is_earned"),
    [
        ("paid", "", True),
        ("held", "one-sided", False),
        ("held", "dispute", True),
        ("rejected", "reversed", True),
        ("rejected", "expired", False),
        ("rejected", "signature", False),
    ],
)
def test_what_came_into_the_accounts(state, why, is_earned):
    line = StateLine(
        state=ReceiptState(state), why=why, receipts=1, servings=1, amount_uc=1
    )
    assert line.is_earned is is_earned
