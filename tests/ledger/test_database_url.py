"""The file that names a PostgreSQL database: read, refused, written."""

import pytest
from sqlalchemy import make_url

from ledger.database_url import parse_url, read_url, write_url
from ledger.errors import DatabaseUrlRefused


def test_without_the_file_there_is_no_url(tmp_path):
    assert read_url(tmp_path / "database.url") is None


def test_what_is_written_reads_back_and_is_the_owners_alone(tmp_path):
    path = tmp_path / "database.url"
    url = parse_url("postgresql://me:s%40cret@db.example:5433/books?sslmode=require")
    write_url(path, url)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_url(path) == url
    assert [url.password] == ["s@cret"]
    assert url.drivername == "postgresql+psycopg"
    assert [p.name for p in tmp_path.iterdir()] == ["database.url"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        "mysql://me:secret@db/books",
        "sqlite:///secret",
        "postgresql+asyncpg://me:secret@db/books",
        "postgresql://me:secret@db:not-a-port/books",
        "\0secret",
    ],
)
def test_other_things_are_refused_and_not_repeated(tmp_path, text):
    path = tmp_path / "database.url"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(DatabaseUrlRefused) as caught:
        read_url(path)
    assert "secret" not in str(caught.value)
    assert caught.value.advice


def test_one_line_of_bounded_length(tmp_path):
    path = tmp_path / "database.url"
    for raw in (b"postgresql:///a\npostgresql:///b\n", b"postgresql:///" + b"a" * 5000):
        path.write_bytes(raw)
        with pytest.raises(DatabaseUrlRefused, match="one line"):
            read_url(path)
    path.write_bytes(b"postgresql:///a?service=books\n\n")
    assert read_url(path) == make_url("postgresql+psycopg:///a?service=books")
    path.unlink()
    path.mkdir()
    with pytest.raises(DatabaseUrlRefused, match="directory"):
        read_url(path)


def test_a_password_that_others_may_read_is_refused(tmp_path):
    path = tmp_path / "database.url"
    path.write_text("postgresql://me:secret@db/books")
    path.chmod(0o640)
    with pytest.raises(DatabaseUrlRefused, match="mode 640"):
        read_url(path)
    path.write_text("postgresql://me@db/books")  # there is nothing to read
    assert read_url(path) is not None
