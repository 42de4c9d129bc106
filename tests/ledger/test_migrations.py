"""Migrations: new, old, newer."""

import pytest
from sqlalchemy import create_engine, update

from ledger import migrations
from ledger.errors import StoreUnavailable
from ledger.migrations import migrate, stored_version
from ledger.schema import SCHEMA_VERSION, schema_version


@pytest.fixture
def engine():
    engine = create_engine("sqlite://")
    yield engine
    engine.dispose()


def test_a_new_database_is_current_and_stays_so(engine):
    with engine.begin() as connection:
        assert stored_version(connection) == 0
        migrate(connection)
        migrate(connection)
        assert stored_version(connection) == SCHEMA_VERSION


def test_a_newer_database_is_refused(engine):
    with engine.begin() as connection:
        migrate(connection)
        connection.execute(update(schema_version).values(version=SCHEMA_VERSION + 1))
        with pytest.raises(StoreUnavailable, match="newer"):
            migrate(connection)


def test_an_older_database_gets_the_steps_it_lacks_in_order(engine, monkeypatch):
    with engine.begin() as connection:
        migrate(connection)
        done = []
        steps = {SCHEMA_VERSION + n: lambda _, n=n: done.append(n) for n in (1, 2)}
        monkeypatch.setattr(migrations, "STEPS", steps)
        monkeypatch.setattr(migrations, "SCHEMA_VERSION", SCHEMA_VERSION + 2)
        migrate(connection)
        assert done == [1, 2]
        assert stored_version(connection) == SCHEMA_VERSION + 2


def test_there_is_a_step_for_every_version_after_the_first():
    assert sorted(migrations.STEPS) == list(range(2, SCHEMA_VERSION + 1))
