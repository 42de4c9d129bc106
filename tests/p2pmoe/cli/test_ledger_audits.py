"""`ledger audit list|records|rows`: what beacons chose, and what came of it."""

import pytest

from ledger.errors import NotFound, OperationRefused
from tests.support.beacons import audited_books
from tests.support.ledger_commands import document_of, run
from tests.support.ledger_world import Party


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    path = tmp_path_factory.mktemp("books") / "ledger"
    audited_books(path)
    return path


def test_audits_are_listed_newest_first_and_chosen(books):
    rows = document_of(books, "audit", "list")["audits"]
    assert [row["id"] for row in rows] == list(range(len(rows), 0, -1))
    failed = document_of(books, "audit", "list", "--state", "failed")["audits"]
    cheat = Party("cheat").id.hex()
    assert {row["worker"] for row in failed} == {cheat}
    assert [row["reversed"] for row in failed] == [False, True]
    assert all(len(row["referees"]) == 2 for row in failed)
    of_cheat = document_of(books, "audit", "list", "--worker", cheat[:8])["audits"]
    assert {row["worker"] for row in of_cheat} == {cheat}
    assert len(document_of(books, "audit", "list", "--limit", "2")["audits"]) == 2
    plain = run(books, "audit", "list").stdout
    assert plain.startswith("id\tstate\tworker\tbackbone\ttab\tserving")


@pytest.mark.parametrize("by", ["worker", "backbone"])
def test_records_add_up(books, by):
    rows = document_of(books, "audit", "records", "--by", by)["records"]
    n_all = len(document_of(books, "audit", "list")["audits"])
    assert sum(row["audits"] for row in rows) == n_all
    assert sum(row["failed"] for row in rows) == 2
    assert sum(row["unopened"] for row in rows) == 1
    head = run(books, "audit", "records", "--by", by).stdout.splitlines()[0]
    assert head == f"{by}\taudits\tpassed\tfailed\tunopened\tunjudged\tunasked\topen"


def test_the_rows_of_a_conviction_are_written(books, tmp_path):
    [failed, _] = document_of(books, "audit", "list", "--state", "failed")["audits"]
    file = tmp_path / "rows"
    words = ("audit", "rows", str(failed["id"]), "-o", str(file))
    assert run(books, *words).exit_code == 0
    assert file.read_bytes() == b"x%d" % failed["serving"]
    none = run(books, "audit", "rows", "1", "-o", str(tmp_path / "none"))
    assert isinstance(none.exception, NotFound)


@pytest.mark.parametrize(
    "words", [("list", "--state", "guilty"), ("records", "--by", "expert")]
)
def test_other_words_are_refused_in_one_line(books, words):
    found = run(books, "audit", *words)
    assert isinstance(found.exception, OperationRefused)
    assert found.exception.exit_code == 2


def test_the_report_counts_them(books):
    lines = document_of(books, "audit", "report")["lines"]
    counts = {(row["what"], row["state"]): row["count"] for row in lines}
    assert counts["audits", "failed"] == 2
    assert counts["beacons", ""] == 5
