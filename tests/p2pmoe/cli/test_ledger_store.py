"""`p2pmoe ledger migrate|copy|backup|restore`."""

import json

import pytest

from ledger.database_url import write_url
from ledger.errors import DatabaseUrlRefused, TargetNotEmpty
from ledger.schema import SCHEMA_VERSION
from p2pmoe.errors import ConfigurationError
from tests.support.ledger_commands import document_of, run, world_with_vouchers


@pytest.fixture
def books(tmp_path):
    """A ledger in SQLite."""
    world_with_vouchers(tmp_path / "books")
    return tmp_path / "books"


def test_migrate_says_what_it_did(books):
    values = document_of(books, "migrate")
    assert values == {
        "schema_before": SCHEMA_VERSION,
        "schema": SCHEMA_VERSION,
        "changed": False,
    }
    assert f"schema\t{SCHEMA_VERSION}" in run(books, "migrate").stdout


def test_what_was_backed_up_is_restored_and_verified(books, tmp_path):
    taken = document_of(books, "backup", str(tmp_path / "b.tar"))
    assert taken["bytes"] > 0
    restored = document_of(tmp_path / "again", "restore", str(tmp_path / "b.tar"))
    assert restored | {"place": ""} == taken | {"place": ""}
    assert taken["taken"].endswith("Z")
    before, after = (document_of(p, "verify") for p in (books, tmp_path / "again"))
    assert before == after
    again = run(tmp_path / "again", "restore", str(tmp_path / "b.tar"))
    assert isinstance(again.exception, TargetNotEmpty)


def test_restore_fills_an_operators_folder_and_postgresql(
    books, tmp_path, postgres_server
):
    run(books, "backup", str(tmp_path / "b"))
    (tmp_path / "operator").mkdir()
    (tmp_path / "operator" / "network.key").touch()
    write_url(tmp_path / "url", postgres_server.new_database("template1"))
    words = ("restore", str(tmp_path / "b"), "--to", str(tmp_path / "url"))
    result = run(tmp_path / "operator", *words)
    assert f"place\t{tmp_path}/operator/ledger" in result.stdout
    assert document_of(tmp_path / "operator", "verify")["verified"]


def test_copy_and_switch(books, postgres_server):
    url = postgres_server.new_database("template1").set(drivername="postgresql")
    to = url.render_as_string()
    document = document_of(books, "copy", "--to", to)
    assert document["switched"] is False
    assert sum(t["rows"] for t in document["tables"]) == document["rows"] > 0
    assert isinstance(run(books, "copy", "--to", to).exception, TargetNotEmpty)
    assert (books / "ledger.sqlite3").exists()
    write_url(books / "database.url", url)
    balances = document_of(books, "balance")
    (books / "ledger.sqlite3").unlink()
    words = ("copy", "--to", "sqlite", "--switch")
    assert "transfer\t" in run(books, *words).stdout
    assert (books / "ledger.sqlite3").exists()
    assert document_of(books, "balance") == balances


@pytest.mark.parametrize(
    ("to", "reason"),
    [
        ("sqlite", "no use"),
        ("postgresql://me:hidden@db/books", "every process"),
        ("postgresql://db/books?password=hidden", "every process"),
        ("mysql://db/books", "not PostgreSQL"),
        ("nowhere/url", "neither"),
    ],
)
def test_where_it_cannot_go(books, to, reason):
    error = run(books, "copy", "--to", to).exception
    assert isinstance(error, ConfigurationError | DatabaseUrlRefused)
    assert reason in str(error)
    assert "hidden" not in str(error)


def test_json_has_stable_names(books, tmp_path):
    result = run(books, "backup", str(tmp_path / "b"), "--json")
    assert list(json.loads(result.stdout)) == [
        "place",
        "taken",
        "taken_us",
        "schema",
        "files",
        "bytes",
    ]
