"""What the ledger's audit says about the honest books after a change by hand.

Changes of the database are made in a transaction of a copy in memory and rolled back,
so that each takes some milliseconds; who changes files copies the books first.
"""

import atexit
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import StaticPool

from ledger.audit import check_books
from ledger.audit_books import AuditReport, Books
from ledger.audit_log import read_shown
from ledger.database import LedgerFolder
from ledger.errors import DifferenceFound
from tests.support.honest_books import copy_of_honest_books
from tests.support.independent import ids_of, independent
from tests.support.ledger_world import World

__all__ = ["difference_after", "report_after", "second_opinion_after"]


Part = Callable[[Connection, Books], None]


def report_after(
    *statements: str,
    part: Part | None = None,
    tell: Callable[[str, float], None] | None = None,
) -> AuditReport:
    """Return what the audit finds right after some statements.

    With a part of the audit, that part alone sees them: the others came before.
    """
    folder, world, engine = _in_memory()
    books = Books(world.identity)
    if tell is not None:
        books.tell = tell
    shown = read_shown(folder.log, books)
    with engine.connect() as connection:
        try:
            if part is not None:
                check_books(connection, folder, books, shown)
            for statement in statements:
                changed = connection.exec_driver_sql(statement).rowcount
                assert changed > 0, statement
            if part is not None:
                part(connection, books)
            else:
                check_books(connection, folder, books, shown)
        finally:
            connection.rollback()
    return books.report


def second_opinion_after(*statements: str) -> dict[str, int]:
    """Return what the auditor's script finds right after some statements."""
    folder, world, engine = _in_memory()
    connection = engine.raw_connection()
    db = connection.driver_connection
    db.row_factory = sqlite3.Row
    try:
        db.execute("begin")
        for statement in statements:
            assert db.execute(statement).rowcount > 0, statement
        books = independent.Books(ids_of(world), db, folder.path)
        shown = (folder.log / "checkpoint").read_bytes()
        return independent.check_books(books, shown, ())
    finally:
        db.row_factory = None
        db.execute("rollback")
        connection.close()


def difference_after(*statements: str, part: Part | None = None) -> str:
    """Return the one line that names the difference."""
    with pytest.raises(DifferenceFound) as caught:
        report_after(*statements, part=part)
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)
    return str(caught.value)


@cache
def _in_memory() -> tuple[LedgerFolder, World, Engine]:
    """Return folder, world, and the database in memory, without its triggers."""
    place = tempfile.mkdtemp(prefix="audits-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    path = Path(place) / "books"
    world = copy_of_honest_books(path)
    folder = LedgerFolder(path)
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    source = sqlite3.connect(folder.database)
    source.backup(copy)
    source.close()
    copy.execute("pragma ignore_check_constraints = on")
    query = "select name from sqlite_master where type = 'trigger'"
    for (name,) in copy.execute(query).fetchall():
        copy.execute(f"drop trigger {name}")
    engine = create_engine("sqlite://", creator=lambda: copy, poolclass=StaticPool)
    event.listen(engine, "begin", lambda conn: conn.exec_driver_sql("begin"))
    return folder, world, engine
