"""Append-only tables in both databases: refused, and seen when that was undone."""

import pytest
from sqlalchemy import delete, insert, update
from sqlalchemy.exc import DBAPIError

from ledger.database import LedgerFolder, writing_engine
from ledger.database_triggers import trigger_problem
from ledger.migrations import migrate
from ledger.schema_closing import policy


@pytest.fixture
def connection(ledger_database):
    ledger_database.mkdir(exist_ok=True)
    engine = writing_engine(LedgerFolder(ledger_database))
    with engine.begin() as connection:
        migrate(connection)
        yield connection
    engine.dispose()


@pytest.mark.parametrize("change", [update(policy).values(seq=9), delete(policy)])
def test_a_written_row_stays(connection, change):
    row = {"seq": 1, "hash": b"h", "raw": b"r", "signature": b"s", "posted_us": 0}
    connection.execute(insert(policy).values(row))
    with (
        pytest.raises(DBAPIError, match="policy is append-only"),
        connection.begin_nested(),
    ):
        connection.execute(change)


def test_what_was_made_is_there(connection):
    assert trigger_problem(connection) is None


def test_a_trigger_that_was_dropped_is_seen(connection):
    drop = {
        "sqlite": "drop trigger transfer_no_update",
        "postgresql": "drop trigger transfer_no_change on transfer",
    }
    connection.exec_driver_sql(drop[connection.dialect.name])
    assert "transfer_no_" in trigger_problem(connection)
    assert "missing" in trigger_problem(connection)


def test_a_trigger_that_does_nothing_is_seen(connection):
    change = {
        "sqlite": (
            "drop trigger filing_no_delete",
            "create trigger filing_no_delete before delete on filing "
            "begin select 1; end",
        ),
        "postgresql": ("alter table filing disable trigger filing_no_change",),
    }
    for statement in change[connection.dialect.name]:
        connection.exec_driver_sql(statement)
    assert "is not what it was" in trigger_problem(connection)


def test_a_trigger_of_somebody_else_is_seen(connection):
    evil = {
        "sqlite": "create trigger evil after insert on account begin select 1; end",
        "postgresql": "create trigger evil after insert on account "
        "for each row execute function transfer_is_append_only()",
    }
    connection.exec_driver_sql(evil[connection.dialect.name])
    assert trigger_problem(connection) == "evil is no trigger of the ledger"
