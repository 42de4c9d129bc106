"""Copying a database: all rows, both ways, compared; never over something."""

import pytest
from sqlalchemy import insert, select

from ledger import copying, database_postgres, database_sqlite
from ledger.audit import verify_ledger
from ledger.copying import copy_database, table_digest
from ledger.database import Reader
from ledger.database_url import write_url
from ledger.errors import DifferenceFound, StoreUnavailable, TargetNotEmpty
from ledger.schema import METADATA, leaf_file, transfer
from tests.support.ledger_commands import world_with_vouchers


@pytest.fixture
def world(ledger_database):
    return world_with_vouchers(ledger_database)


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request, tmp_path):
    """An engine on an empty database, and the folder that would use it."""
    folder = tmp_path / "copy"
    folder.mkdir()
    if request.param == "sqlite":
        engine = database_sqlite.writing_engine(folder / "ledger.sqlite3")
    else:
        url = request.getfixturevalue("postgres_server").new_database("template1")
        write_url(folder / "database.url", url)
        engine = database_postgres.writing_engine(url)
    yield engine, folder
    engine.dispose()


def test_a_copy_is_the_same_ledger(world, ledger_database, target, monkeypatch):
    monkeypatch.setattr(copying, "_BATCH", 2)
    engine, folder = target
    told = []
    with Reader(ledger_database).session() as source:
        report = copy_database(source, engine, lambda *at: told.append(at))
        for table in METADATA.sorted_tables:
            with engine.connect() as copied:
                assert table_digest(source, table) == table_digest(copied, table)
    engine.dispose()
    assert report.rows > 10
    assert told[0][1] == 0.0
    assert told[-1][1] < 1.0
    (ledger_database / "leaves").rename(folder / "leaves")
    verify_ledger(Reader(folder), world.identity)
    with world.open(folder) as store:  # it goes on from there
        assert store.grant(world.order()).result(60)


def test_nothing_is_copied_over(target, tmp_path):
    world_with_vouchers(tmp_path / "books")
    engine, _ = target
    with Reader(tmp_path / "books").session() as source:
        copy_database(source, engine)
        with pytest.raises(TargetNotEmpty, match="rows in its table"):
            copy_database(source, engine)


def test_a_copy_that_differs_is_not_committed(target, tmp_path, monkeypatch):
    world_with_vouchers(tmp_path / "books")
    engine, folder = target
    real = copying.table_digest

    def differs(connection, table):
        if table is transfer:
            table = leaf_file
        return real(connection, table)

    monkeypatch.setattr(copying, "table_digest", differs)
    with Reader(tmp_path / "books").session() as source:
        with pytest.raises(DifferenceFound, match="table transfer"):
            copy_database(source, engine)
    engine.dispose()
    with pytest.raises(StoreUnavailable):
        Reader(folder)


def test_a_digest_knows_nothing_from_empty_and_text_from_bytes(tmp_path):
    engine = database_sqlite.writing_engine(tmp_path / "books")
    with engine.begin() as connection:
        METADATA.create_all(connection)
        empty = table_digest(connection, leaf_file)
        connection.execute(insert(leaf_file).values(number=1, length_bytes=0))
        one = table_digest(connection, leaf_file)
        assert (empty.rows, one.rows) == (0, 1)
        assert empty.digest != one.digest
        assert connection.execute(select(leaf_file)).all() == [(1, 0)]
    assert copying._encoded((b"a",)) != copying._encoded(("a",))
    assert copying._encoded((None,)) != copying._encoded((b"",))
    assert copying._encoded((b"a", b"b")) != copying._encoded((b"ab", b""))
    with pytest.raises(DifferenceFound, match="float"):
        copying._encoded((0.5,))
    engine.dispose()
