"""The tables of standby pay: append-only, and there after a migration."""

import pytest
from sqlalchemy import create_engine, inspect, update

from ledger.errors import StoreUnavailable
from ledger.migrations import STEPS, migrate
from ledger.schema import METADATA, schema_version
from ledger.schema_standby import STANDBY_TABLES, price_epoch
from tests.support.honest_books import copy_of_honest_books
from tests.support.ledger_world import on_desk

NAMES = {table.name for table in STANDBY_TABLES}


@pytest.fixture
def engine():
    engine = create_engine("sqlite://")
    yield engine
    engine.dispose()


def test_a_ledger_of_the_second_schema_gets_them(engine):
    with engine.begin() as connection:
        migrate(connection)
        for table in reversed(METADATA.sorted_tables):
            if table.name in NAMES:
                table.drop(connection)
        connection.execute(update(schema_version).values(version=2))
        STEPS[3](connection)
        assert set(inspect(connection).get_table_names()) >= NAMES


def test_none_of_it_is_ever_changed(tmp_path):
    world = copy_of_honest_books(tmp_path / "books")

    def cheat(desk):
        desk.connection.execute(update(price_epoch).values(paid_uc=0))

    with world.open(tmp_path / "books") as store:
        with pytest.raises(StoreUnavailable, match="append-only"):
            on_desk(store, cheat)
