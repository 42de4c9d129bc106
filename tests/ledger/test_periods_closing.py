"""Closing periods: once, in order, over by the ledger's time, never changed again."""

import pytest
from sqlalchemy import delete, text, update
from sqlalchemy.exc import DBAPIError

from ledger import periods_closing
from ledger.database import LedgerFolder, Reader, open_writing_engine
from ledger.errors import DifferenceFound, NotFound, OperationRefused, PeriodRefused
from ledger.log.tree import EMPTY_ROOT, root_of
from ledger.periods import parse_period
from ledger.periods_closing import closed_period, closed_periods, log_at
from ledger.schema import transfer
from ledger.schema_closing import closing, period
from ledger.statement_root import statement_root
from tests.support.ledger_world import DAY_US, NOVEMBER_US, World

DECEMBER_US = parse_period("2026-12").start_us


def close(store, name):
    return store.operate("period.close", {"name": name}).result(60)


@pytest.fixture
def world(tmp_path):
    return world_of_november(tmp_path)


def world_of_november(path):
    world = World()
    world.path = path
    with world.open(path) as store:
        tab = world.tab(store.grant(world.order()).result(60))
        tab.file(store, 0, 1)
        world.now_us = DECEMBER_US - 1
        tab.file(store, 2)
        world.tab_side = tab
    return world


def test_a_period_is_closed_once_it_is_over(ledger_database):
    world = world_of_november(ledger_database)
    with world.open(world.path) as store:
        with pytest.raises(PeriodRefused, match="2026-11 is not over") as caught:
            close(store, "2026-11")
        assert "when it is over" in caught.value.advice
        world.now_us = DECEMBER_US
        first = close(store, "2026-11")
        assert first["already"] is False
        assert first["closed"] == "2026-12-01T00:00:00.000000Z"
        # What comes later changes nothing, and closing again is the same row.
        world.tab_side.file(store, 3)
        again = close(store, "2026-11")
        assert again == first | {"already": True}
        assert close(store, "2026-11-01..2026-12") == again
        with store.reader().session() as connection:
            span = parse_period("2026-11")
            assert statement_root(connection, span).hex() == first["statement_root"]
            assert closed_period(connection, "2026-11").last_seq == first["last_seq"]
            posted = connection.execute(
                transfer.select().where(transfer.c.seq > first["last_seq"])
            ).all()
            assert all(row.posted_us >= DECEMBER_US for row in posted)


def test_late_vouchers_belong_to_the_period_in_which_they_came(world):
    with world.open(world.path) as store:
        signed, block = world.tab_side.next(3)  # issued in November
        world.now_us = DECEMBER_US + 5
        store.file(signed, block, world.backbone.id).result(60)
        assert close(store, "2026-11")["late"] == ""
        world.now_us += 31 * DAY_US
        late = close(store, "2026-12")["late"]
    assert late.startswith("1 vouchers of 0.0000")
    assert late.endswith("credits were issued before it began")


def test_periods_follow_each_other(world):
    world.now_us = DECEMBER_US + 40 * DAY_US
    with world.open(world.path) as store:
        world.tab_side.file(store, 3)
        with pytest.raises(
            PeriodRefused, match="before 2026-12, at 2026-11-01T00:00:0"
        ):
            close(store, "2026-12")
        close(store, "2026-11")
        for name in ("2026", "2026-11-30..2026-12-02", "2026-10", "2026-11-15"):
            with pytest.raises(PeriodRefused):
                close(store, name)
        close(store, "2026-12")
        with store.reader().session() as connection:
            rows = closed_periods(connection)
            assert [row.name for row in rows] == ["2026-11", "2026-12"]
            assert [row.id for row in rows] == [1, 2]
            with pytest.raises(NotFound, match="2027-01 is not closed") as caught:
                closed_period(connection, "2027-01")
            assert "ledger close 2027-01" in caught.value.advice


def test_no_period(world):
    with world.open(world.path) as store:
        for name in ("", "nonsense", "2026-13", 7, "2026-11" * 9):
            with pytest.raises((PeriodRefused, OperationRefused)):
                close(store, name)
        with pytest.raises(OperationRefused, match="unknown parameters"):
            store.operate("period.close", {"name": "2026-11", "x": 1}).result(60)


def test_a_quiet_period_closes(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        document = close(store, "2026-10")
        assert (document["last_seq"], document["log_size"]) == (0, 0)
        assert document["log_root"] == EMPTY_ROOT.hex()


def test_the_row_cannot_be_changed(world):
    world.now_us = DECEMBER_US
    with world.open(world.path) as store:
        close(store, "2026-11")
    engine = open_writing_engine(LedgerFolder(world.path), world.identity)
    for statement in (update(period).values(late="x"), delete(period)):
        with pytest.raises(DBAPIError, match="append-only"), engine.begin() as writing:
            writing.execute(statement)
    engine.dispose()


def test_the_log_is_joined_in_parts(monkeypatch):
    """The root over parts of a power of two is the root over all."""
    hashes = [bytes([n]) * 32 for n in range(23)]

    class Rows(list):
        def partitions(self, size):
            return (self[at : at + size] for at in range(0, len(self), size))

    class Books:
        def __init__(self, *numbers):
            self.rows = Rows((n, hashes[n]) for n in numbers)

        def execute(self, _):
            return self.rows

    for chunk in (1, 4, 8, 32):
        monkeypatch.setattr(periods_closing, "_CHUNK", chunk)
        for n in range(24):
            assert log_at(Books(*range(n)), 1) == (n, root_of(hashes[:n]))
    with pytest.raises(DifferenceFound, match="entry 1 of the log is missing before 2"):
        log_at(Books(0, 2), 1)


def test_what_was_closed_later_is_not_in_the_log_of_the_period(world):
    with Reader(world.path).session() as connection:
        n_closed = connection.execute(text("select count(*) from closing")).scalar_one()
        assert log_at(connection, NOVEMBER_US) == (0, EMPTY_ROOT)
        assert log_at(connection, DECEMBER_US)[0] == n_closed
    assert closing.c.log_index is not None
