"""SQLite's engines: how they begin, what they sync, how long the log is."""

import contextlib
import sqlite3

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from ledger.database_sqlite import reading_engine, wal_bytes, writing_engine
from ledger.errors import DifferenceFound


def test_the_writer_is_durable_and_the_reader_sees_one_moment(tmp_path):
    path = tmp_path / "books"
    assert wal_bytes(path) == 0
    writer, reader = writing_engine(path), reading_engine(path)
    with writer.begin() as connection:
        for pragma, value in (("synchronous", 2), ("foreign_keys", 1)):
            assert connection.exec_driver_sql(f"pragma {pragma}").scalar() == value
        connection.execute(text("create table t (n integer)"))
    assert wal_bytes(path) > 0
    count = text("select count(*) from t")
    with reader.connect() as early:
        assert early.execute(count).scalar() == 0
        with writer.begin() as connection:
            connection.execute(text("insert into t values (1)"))
        assert early.execute(count).scalar() == 0
    with reader.connect() as late:
        assert late.execute(count).scalar() == 1
        assert late.exec_driver_sql("pragma query_only").scalar() == 1
    writer.dispose()
    assert wal_bytes(path) == 0  # written back by the last to close


@pytest.mark.parametrize(
    "made",
    [
        "create view closing as with recursive c(x) as "
        "(select 1 union all select x + 1 from c) select x from c where x < 0",
        "create virtual table closing using fts5(x)",
    ],
)
def test_what_would_be_computed_is_not_read(tmp_path, made):
    """A view in the place of a table once kept a reader busy for ever."""
    with contextlib.closing(sqlite3.connect(tmp_path / "books")) as books:
        books.execute(made)
    with pytest.raises(DifferenceFound, match="'closing' is no table of its own"):
        reading_engine(tmp_path / "books").connect()


def test_a_cell_that_no_ledger_writes_is_not_read(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "books")) as books:
        books.execute("create table t (small, huge as (zeroblob(100000000)))")
        books.execute("insert into t values (1)")
        books.commit()
    with reading_engine(tmp_path / "books").connect() as reader:
        assert reader.execute(text("select small from t")).scalar() == 1
        with pytest.raises(DBAPIError, match="too big"):
            reader.execute(text("select huge from t")).scalar()
