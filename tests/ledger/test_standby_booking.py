"""Booking a STANDBY paper: whole, once, in its turn, within policy and pot."""

from dataclasses import replace

import pytest
from sqlalchemy import select

from ledger.accounts import AccountKind
from ledger.audit import verify_ledger
from ledger.errors import PotEmpty, SignatureRefused, StandbyRefused
from ledger.grant import GRANT_DOMAIN
from ledger.schema_standby import (
    holding,
    price_epoch,
    price_row,
    standby_paper,
    standby_pay,
)
from ledger.standby import sign_standby
from ledger.standby_booking import MAX_STANDBY_AGE_US, MAX_STANDBY_SKEW_US
from tests.support.ledger_world import Party, World, held
from tests.support.standby_world import (
    EPOCH_US,
    TERMS,
    book,
    fill_pot,
    paper_of,
    served,
)

ADA, BOB, NEW = Party("ada"), Party("bob"), Party("new")
TABLES = (standby_paper, price_epoch, price_row, holding, standby_pay)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def store(world, tmp_path):
    with world.open(tmp_path, terms=TERMS) as store:
        served(store, world, ADA, BOB)
        fill_pot(store, 10_000)
        world.now_us += EPOCH_US
        yield store
        verify_ledger(store.reader(), world.identity)


def rows(store, table):
    with store.reader().session() as connection:
        return connection.execute(select(table)).all()


def test_each_worker_gets_what_follows_and_the_pot_the_less(store, world):
    paper = paper_of(world, ADA, BOB)
    booked = book(store, world, paper)
    # H m / sum(m T) each, R being T: 1000 * 2 / 6 and 1000 * 1 / 6, rounded down
    assert paper.pay() == dict.fromkeys(sorted((ADA.id, BOB.id)), 333 + 166)
    assert (booked.paid_uc, booked.unpaid_uc, booked.is_repeat) == (998, 0, False)
    assert held(store, AccountKind.STANDBY) == 10_000 - 998
    assert held(store, AccountKind.WORKER_AVAILABLE) == 998


def test_what_it_says_is_kept_as_rows(store, world):
    paper = paper_of(world, ADA, BOB)
    book(store, world, paper)
    (epoch,) = rows(store, price_epoch)
    assert (epoch.epoch, epoch.pot_uc, epoch.paid_uc) == (paper.epoch, 1000, 998)
    assert [(row.layer, row.expert, row.demand) for row in rows(store, price_row)] == [
        (1, 3, 5),
        (2, 1, 5),
    ]
    assert sorted(row.amount_uc for row in rows(store, holding)) == [166, 166, 333, 333]
    assert {row.replicas for row in rows(store, standby_pay)} == {2}


def test_a_repeat_is_answered_and_moves_nothing(store, world):
    paper = paper_of(world, ADA)
    first = book(store, world, paper)
    world.now_us += 90 * EPOCH_US
    again = book(store, world, paper)
    assert again == replace(first, is_repeat=True)
    assert len(rows(store, standby_paper)) == 1


def test_who_never_had_a_voucher_filed_gets_nothing_and_the_pot_keeps_it(store, world):
    booked = book(store, world, paper_of(world, ADA, NEW))
    assert (booked.paid_uc, booked.unpaid_uc) == (499, 499)
    assert held(store, AccountKind.STANDBY) == 10_000 - 499
    states = {row.worker: row.state for row in rows(store, standby_pay)}
    assert states == {ADA.id: "paid", NEW.id: "unknown"}
    served(store, world, NEW)  # too late for this epoch
    world.now_us += EPOCH_US
    assert book(store, world, paper_of(world, NEW)).paid_uc > 0


def test_an_epoch_without_replicas_is_booked_too(store, world):
    paper = paper_of(world)
    assert book(store, world, paper).paid_uc == 0
    assert len(rows(store, price_epoch)) == 1


def test_the_pot_is_never_passed_and_may_be_filled(store, world):
    paper = paper_of(world, ADA, BOB, pot_uc=500_000)
    with pytest.raises(PotEmpty, match=r"pot holds 0\.010000"):
        book(store, world, paper)
    assert all(rows(store, table) == [] for table in TABLES)
    fill_pot(store, 500_000, "more")
    assert book(store, world, paper).paid_uc > 400_000


def test_the_policy_says_how_much_one_paper_may_give(store, world):
    paper = paper_of(world, ADA, pot_uc=TERMS.standby_uc + 1)
    with pytest.raises(PotEmpty, match="policy allows 1"):
        book(store, world, paper)
    store.operate("policy.set", {"standby_uc": 0, "commit": True}).result(60)
    with pytest.raises(PotEmpty, match="policy allows 0"):
        book(store, world, paper_of(world, ADA))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"network": b"n" * 32}, "another network"),
        ({"from_us": 0, "to_us": EPOCH_US}, "too long ago"),
    ],
)
def test_a_paper_that_is_not_ours_or_too_old_is_refused(store, world, changes, told):
    with pytest.raises(StandbyRefused, match=told):
        book(store, world, paper_of(world, ADA, **changes))


def test_an_epoch_must_be_over_but_clocks_may_differ_a_little(store, world):
    paper = paper_of(world, ADA)
    end_us = world.now_us + MAX_STANDBY_SKEW_US
    with pytest.raises(StandbyRefused, match="not over"):
        book(store, world, replace(paper, to_us=end_us + 1))
    assert book(store, world, replace(paper, to_us=end_us)).paid_uc


def test_the_oldest_paper_that_is_taken(store, world):
    paper = paper_of(world, ADA)
    world.now_us = paper.to_us + MAX_STANDBY_AGE_US + 1
    with pytest.raises(StandbyRefused, match="long ago"):
        book(store, world, paper)
    other = replace(paper, from_us=paper.from_us + 1, to_us=paper.to_us + 1)
    assert book(store, world, other).paid_uc


def test_one_epoch_and_one_time_is_paid_once_for_a_model(store, world):
    paper = paper_of(world, ADA)
    book(store, world, paper)
    with pytest.raises(StandbyRefused, match="another paper"):
        book(store, world, replace(paper, pot_uc=999))
    overlapping = replace(paper, epoch=paper.epoch + 1, from_us=paper.to_us - 1_000_001)
    with pytest.raises(StandbyRefused, match="another paper"):
        book(store, world, overlapping)
    other_model = replace(paper, manifest_hash=b"m" * 32, price_table_hash=bytes(32))
    assert book(store, world, other_model).paid_uc


def test_prices_of_another_model_are_refused(store, world):
    with pytest.raises(StandbyRefused, match="another model"):
        book(store, world, paper_of(world, ADA, manifest_hash=b"m" * 32))


def test_only_the_market_says_what_replicas_get(store, world):
    raw = paper_of(world, ADA).pack()
    for signature in (
        world.ledger.sign(b"p2pmoe/standby/v1\0" + raw),
        world.market.sign(GRANT_DOMAIN + raw),
    ):
        with pytest.raises(SignatureRefused):
            store.book_standby(raw, signature)


def test_it_goes_on_after_a_restart(world, tmp_path):
    paper = None
    for n in range(3):
        with world.open(tmp_path, terms=TERMS) as store:
            if n == 0:
                served(store, world, ADA)
                fill_pot(store, 10_000)
            fill_pot(store, 10_000)  # the same note: nothing
            world.now_us += EPOCH_US
            if paper is not None:
                assert book(store, world, paper).is_repeat
            paper = paper_of(world, ADA)
            assert not book(store, world, paper).is_repeat
    with world.open(tmp_path) as store:
        assert len(rows(store, standby_paper)) == 3
        verify_ledger(store.reader(), world.identity)


def test_many_at_once_are_booked_once(store, world):
    """Repeats and rivals of one epoch, all in one group of the writer."""
    paper = paper_of(world, ADA, BOB)
    papers = [paper, replace(paper, pot_uc=999)] * 10
    futures = [
        store.book_standby(each.pack(), sign_standby(each.pack(), world.market.sign))
        for each in papers
    ]
    outcomes = [future.exception(60) or future.result() for future in futures]
    assert not isinstance(outcomes[0], Exception)
    refused = [each for each in outcomes if isinstance(each, StandbyRefused)]
    repeats = [each for each in outcomes[1:] if each not in refused]
    assert (len(refused), len(repeats)) == (10, 9)
    assert all(each.is_repeat for each in repeats)
    assert held(store, AccountKind.STANDBY) == 10_000 - outcomes[0].paid_uc
