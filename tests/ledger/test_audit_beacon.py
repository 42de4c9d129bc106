"""Both verifiers derive draws and convictions again, whatever is changed by hand."""

# ruff: noqa: S608  every part of a statement is written here
import shutil
import sqlite3

import pytest
from sqlalchemy import BigInteger, Integer, LargeBinary

from ledger.audit import verify_ledger
from ledger.database import Reader
from ledger.errors import DifferenceFound
from ledger.schema_beacon import BEACON_TABLES
from tests.support.beacons import audited_books, draw, new_tab
from tests.support.independent import ids_of, independent
from tests.support.ledger_world import World

UNVERIFIED = {
    "audit.decided_us",  # bounded; that of a conviction that took something is verified
    "audit.detail",  # for people
}
COLUMNS = [
    (table.name, column.name) for table in BEACON_TABLES for column in table.columns
]
FAILED = "id = (select min(id) from audit where state = 'failed')"
PASSED = "id = (select min(id) from audit where state = 'passed')"
# What somebody would like to be true.
WISHES = {
    "an audit that disappears": f"delete from audit where {FAILED}",
    "all audits disappear": "delete from audit",
    "a beacon that disappears": "delete from beacon where number = 3",
    "the last beacon disappears": (
        "delete from beacon where number = (select max(number) from beacon)"
    ),
    "a draw that begins later": (
        "update beacon set from_us = from_us + 1 where number = 2"
    ),
    "a conviction called a pass": (
        f"update audit set state = 'passed', opened = null where {FAILED}"
    ),
    "a conviction by one referee": (
        f"update audit set words = substr(words, 1, 48) where {FAILED}"
    ),
    "a conviction by one referee, twice": (
        "update audit set words = cast(substr(words, 1, 48) || substr(words, 1, 48) "
        f"as blob) where {FAILED}"
    ),
    "a conviction by the worker's own word": (
        "update audit set words = cast(worker || substr(words, 33) as blob) "
        f"where {FAILED}"
    ),
    "a conviction without rows": f"update audit set opened = null where {FAILED}",
    "rows of another serving": f"update audit set opened = x'2a' where {FAILED}",
    "a conviction that takes nothing back": (
        f"update audit set is_reversed = 0 where {FAILED}"
    ),
    "a conviction at another time": (
        f"update audit set decided_us = decided_us + 1000000 where {FAILED}"
    ),
    "a pass made a conviction": f"update audit set state = 'failed' where {PASSED}",
    "a pass that nobody said": f"update audit set words = x'' where {PASSED}",
    "a word too many": (
        "update audit set words = cast(words || substr(words, 1, 32) || "
        f"randomblob(16) as blob) where {PASSED}"
    ),
    "an unopened one that somebody judged": (
        "update audit set state = 'unopened' where " + PASSED
    ),
    "decided before it was drawn": (
        f"update audit set decided_us = posted_us - 1 where {PASSED}"
    ),
    "decided, and open": f"update audit set state = 'open' where {PASSED}",
    "another serving of the same voucher": (
        f"update audit set place = place + 1 where {PASSED}"
    ),
}


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audited") / "ledger"
    return folder, audited_books(folder)


def opinions(books, tmp_path, change):
    """What each verifier says after a change: None if it finds nothing."""
    built, world = books
    folder = tmp_path / "ledger"
    shutil.copytree(built, folder)
    db = sqlite3.connect(folder / "ledger.sqlite3")
    triggers = db.execute("select name from sqlite_master where type = 'trigger'")
    for (name,) in triggers.fetchall():
        db.execute(f"drop trigger {name}")
    db.execute("pragma ignore_check_constraints = on")
    if change:
        assert db.execute(change).rowcount > 0
    db.commit()
    db.close()
    found = []
    try:
        verify_ledger(Reader(folder), world.identity)
        found.append(None)
    except DifferenceFound as exc:
        found.append(str(exc))
    try:
        independent.verify(folder, ids_of(world))
        found.append(None)
    except independent.Difference as exc:
        found.append(str(exc))
    return found


def test_honest_audits_are_found_right(books, tmp_path):
    built, world = books
    report = verify_ledger(Reader(built), world.identity)
    counts = independent.verify(built, ids_of(world))
    assert (report.beacons, report.audits) == (counts["beacons"], counts["audits"])
    assert report.beacons == 5
    assert report.audits > 15
    quick = verify_ledger(Reader(built), world.identity, is_full=False)
    assert quick.audits == report.audits
    states = sqlite3.connect(built / "ledger.sqlite3").execute(
        "select distinct state from audit order by state"
    )
    assert [state for (state,) in states] == [
        "failed",
        "open",
        "passed",
        "unasked",
        "unjudged",
        "unopened",
    ]


def test_the_head_of_an_empty_log_is_one(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        store.tend()
        draw(world, store)
        new_tab(world, store).file(store, 1)
        draw(world, store)
    assert verify_ledger(Reader(tmp_path), world.identity).beacons == 2
    assert independent.verify(tmp_path, ids_of(world))["beacons"] == 2


def change_of(table: str, name: str) -> str:
    """Return the statement that changes one value a little."""
    [column] = [t.columns[name] for t in BEACON_TABLES if t.name == table]
    if isinstance(column.type, BigInteger | Integer):
        new = f"{name} + 1000000"
    elif isinstance(column.type, LargeBinary):
        new = (
            f"cast(coalesce(substr({name}, 1, max(length({name}) - 1, 0)), x'') || "
            "x'2a' as blob)"
        )
    else:
        new = f"{name} || 'x'"
    row = f"(select max(rowid) from {table} where {name} is not null)"
    return f"update {table} set {name} = {new} where rowid = {row}"


@pytest.mark.parametrize(("table", "name"), COLUMNS)
def test_every_column_is_verified(books, tmp_path, table, name):
    found = opinions(books, tmp_path, change_of(table, name))
    if f"{table}.{name}" in UNVERIFIED:
        assert found == [None, None]
    else:
        assert all(found), found


@pytest.mark.parametrize("wish", WISHES)
def test_a_wish_does_not_come_true(books, tmp_path, wish):
    found = opinions(books, tmp_path, WISHES[wish])
    assert all(found), found
    assert not any("\n" in each for each in found)
