"""The tables of beacons: append-only draws, and outcomes that have a name."""

# ruff: noqa: S608  every part of a statement is written here
import pytest

from ledger.beacon_words import AuditState
from ledger.errors import StoreUnavailable
from ledger.schema_beacon import BEACON_TABLES
from tests.support.beacons import draw, new_tab
from tests.support.ledger_world import on_desk


def run(store, statement):
    return on_desk(store, lambda desk: desk.connection.exec_driver_sql(statement))


@pytest.fixture
def drawn(world, store):
    draw(world, store)
    new_tab(world, store).file(store, *range(40))
    return draw(world, store)


@pytest.mark.parametrize(
    "statement",
    [
        "update beacon set upto_us = 0",
        "delete from beacon",
        "update audit set state = 'guilty'",
        "update audit set is_reversed = 2",
    ],
)
def test_the_database_refuses_it(store, drawn, statement):
    with pytest.raises(StoreUnavailable):
        run(store, statement)


def test_every_state_has_its_place(store, drawn):
    for state in AuditState:
        run(store, f"update audit set state = '{state}' where id = 1")
    assert [table.name for table in BEACON_TABLES] == ["beacon", "audit"]
