"""The tables from close to payout: constraints that hold whatever the program does."""

import pytest
from sqlalchemy import create_engine, inspect, select
from sqlalchemy.exc import IntegrityError

from ledger.migrations import STEPS, migrate
from ledger.schema import METADATA
from ledger.schema_closing import CLOSING_TABLES, policy


@pytest.fixture
def connection():
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def test_a_first_version_gets_these_tables_and_keeps_its_own(connection):
    earlier = [t for t in METADATA.sorted_tables if t not in CLOSING_TABLES]
    METADATA.create_all(connection, tables=earlier)
    STEPS[2](connection)
    names = inspect(connection).get_table_names()
    assert set(names) == {table.name for table in METADATA.sorted_tables}


@pytest.mark.parametrize("change", ["delete from policy", "update policy set seq=9"])
def test_signed_terms_are_append_only(connection, change):
    migrate(connection)
    connection.execute(
        policy.insert().values(seq=1, hash=b"h", raw=b"r", signature=b"s", posted_us=0)
    )
    with pytest.raises(IntegrityError, match="append-only"):
        connection.exec_driver_sql(change)
    assert connection.execute(select(policy.c.seq)).scalars().all() == [1]
