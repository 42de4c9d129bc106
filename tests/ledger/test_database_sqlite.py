"""SQLite's engines: how they begin, what they sync, how long the log is."""

from sqlalchemy import text

from ledger.database_sqlite import reading_engine, wal_bytes, writing_engine


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
