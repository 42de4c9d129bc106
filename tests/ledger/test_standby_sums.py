"""What standby pay came to: by worker, model, day, layer and expert."""

import pytest

from ledger.income import IncomeBy, income
from ledger.periods import ALL_TIME, Period
from ledger.standby_sums import (
    pot_uc,
    standby_by_day,
    standby_by_expert,
    standby_by_worker,
    standby_lines,
)
from ledger.statement_document import statement_csv, statement_document
from ledger.statements import statement
from tests.support.ledger_world import DAY_US, Party, World
from tests.support.standby_world import (
    EPOCH_US,
    TERMS,
    book,
    fill_pot,
    paper_of,
    served,
)

ADA, BOB, NEW = Party("ada"), Party("bob"), Party("new")


@pytest.fixture(scope="module")
def connection(tmp_path_factory):
    """Two epochs of one day with ADA, BOB and NEW, one of the next with ADA alone."""
    world = World()
    with world.open(tmp_path_factory.mktemp("sums"), terms=TERMS) as store:
        served(store, world, ADA, BOB)
        fill_pot(store, 10_000)
        for _ in range(2):
            world.now_us += EPOCH_US
            book(store, world, paper_of(world, ADA, BOB, NEW))
        world.now_us += DAY_US
        book(store, world, paper_of(world, ADA))
        with store.reader().session() as connection:
            yield connection


# Three holders of T = 2: 1000 * 2/6 * 2/3 and 1000 * 1/6 * 2/3; one alone: 333, 166.
BOTH, ALONE = (222, 111), (333, 166)


def test_a_workers_models(connection, world):
    (line,) = standby_lines(connection, ADA.id, ALL_TIME)
    assert line.manifest_hash == world.manifest_hash
    assert (line.epochs, line.replicas) == (3, 6)
    assert line.amount_uc == 2 * sum(BOTH) + sum(ALONE)
    assert line.last_epoch > line.first_epoch
    assert standby_lines(connection, NEW.id, ALL_TIME) == ()


def test_by_worker_day_and_expert(connection):
    paid = standby_by_worker(connection, ALL_TIME)
    ada, bob = 2 * sum(BOTH) + sum(ALONE), 2 * sum(BOTH)
    assert paid == {ADA.id.hex(): ada, BOB.id.hex(): bob}
    assert standby_by_worker(connection, ALL_TIME, BOB.id) == {BOB.id.hex(): bob}
    days = standby_by_day(connection, ALL_TIME)
    assert days == {"2026-11-01": 4 * sum(BOTH), "2026-11-02": sum(ALONE)}
    experts = standby_by_expert(connection, ALL_TIME, is_by_layer=False)
    assert experts == {
        "1/3": 4 * BOTH[0] + ALONE[0],
        "2/1": 4 * BOTH[1] + ALONE[1],
    }
    layers = standby_by_expert(connection, ALL_TIME, ADA.id, is_by_layer=True)
    assert sum(layers.values()) == ada
    assert set(layers) == {"1", "2"}


def test_every_sum_is_of_what_left_the_pot(connection):
    sums = [
        standby_by_worker(connection, ALL_TIME),
        standby_by_day(connection, ALL_TIME),
        standby_by_expert(connection, ALL_TIME, is_by_layer=True),
        standby_by_expert(connection, ALL_TIME, is_by_layer=False),
    ]
    for each in sums:
        assert sum(each.values()) == 10_000 - pot_uc(connection)


@pytest.mark.parametrize("by", IncomeBy)
def test_income_has_it_beside_what_was_earned(connection, by):
    lines = income(connection, by, ALL_TIME)
    paid_uc = 0 if by == IncomeBy.BACKBONE else 10_000 - pot_uc(connection)
    assert sum(line.standby_uc for line in lines) == paid_uc
    assert len({line.name for line in lines}) == len(lines)


def test_a_statement_has_a_line_for_it_that_adds_up(connection, world):
    first = statement(connection, ADA.id, Period(0, world.now_us + DAY_US // 2))
    rest = statement(
        connection, ADA.id, Period(world.now_us + DAY_US // 2, ALL_TIME.end_us)
    )
    whole = statement(connection, ADA.id, ALL_TIME)
    assert (first.standby_uc, rest.standby_uc) == (2 * sum(BOTH), sum(ALONE))
    assert whole.standby_uc == first.standby_uc + rest.standby_uc
    assert whole.closing_uc == whole.earned_uc + whole.standby_uc
    assert first.closing_uc == rest.opening_uc
    assert len({each.content_hash for each in (first, rest, whole)}) == 3


def test_documents_and_tables_have_it(connection, world):
    whole = statement(connection, ADA.id, ALL_TIME)
    document = statement_document(whole)
    assert document["standby_uc"] == whole.standby_uc
    (model,) = document["standby_by_model"]
    assert (model["model"], model["epochs"]) == (world.manifest_hash.hex(), 3)
    (epoch,) = document["by_epoch"]
    assert (epoch["epoch"], epoch["earned_uc"]) == (7, whole.earned_uc)
    lines = list(statement_csv([whole]))
    assert any(f",summary,standby,,,{whole.standby_uc}," in line for line in lines)
    assert any(
        ",standby," in line and world.manifest_hash.hex() in line for line in lines
    )
    assert any(f",epoch,7:{world.prices.content_hash.hex()}," in line for line in lines)
