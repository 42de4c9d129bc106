"""Read commands on a database that somebody changed: an answer or one line, no more.

Cells get values of another kind, out of any range, or that would steer a terminal.
"""

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from ledger.database import LedgerFolder
from ledger.errors import LedgerError
from tests.support.busy_months import BusyMonths
from tests.support.ledger_commands import run

pytestmark = pytest.mark.slow

STRANGE = (-1, 0, 1.5, None, 2**53, 2**63 - 1, -(2**63), b"", b"\0" * 40, "", "9" * 30)
STEERING = ("x\x1b[2J\n", "x\ty")
COMMANDS = (
    "statement --worker {worker}",
    "statement --worker {worker} --format csv",
    "statement --worker {worker} --format journal",
    "statement --json",
    "receipts --why",
    "income --by worker",
    "income --by expert",
    "income --by day",
    "balance --as-of 2026-12",
    "trial-balance",
    "register {worker}",
    "export --csv",
    "export --journal",
    "prices --epoch 7",
    "explain 50",
    "explain 60",
    "audit report",
    "payout list",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = BusyMonths(tmp_path_factory.mktemp("busy") / "ledger")
    if not LedgerFolder(world.path).database.exists():
        pytest.skip("PostgreSQL keeps its columns' types by itself")
    return world


def change_cells(path: Path, chance: random.Random) -> list[tuple[str, str, object]]:
    """Change three columns, in one row or in all; return what was done."""
    database = sqlite3.connect(path / "ledger.sqlite3")
    database.execute("pragma ignore_check_constraints = 1")
    names = "select name from sqlite_master where type = ? and name not like 'sqlite%'"
    for (name,) in database.execute(names, ("trigger",)).fetchall():
        database.execute(f"drop trigger {name}")
    tables = [name for (name,) in database.execute(names, ("table",))]
    done: list[tuple[str, str, object]] = []
    while len(done) < 3:
        table = chance.choice(tables)
        columns = database.execute(f"pragma table_info({table})").fetchall()
        column, value = chance.choice(columns)[1], chance.choice(STRANGE + STEERING)
        last = f" where rowid = (select max(rowid) from {table})"  # noqa: S608
        where = chance.choice(("", last))
        try:
            database.execute(f"update {table} set {column} = ?{where}", (value,))  # noqa: S608
        except sqlite3.Error:  # not null, unique: the database has none of it
            continue
        done.append((table, column, value))
    database.commit()
    database.close()
    return done


@pytest.mark.parametrize("seed", range(6))
def test_an_answer_or_one_line(world, seed, tmp_path):
    chance = random.Random(seed)
    worker = world.workers[0].id.hex()
    shutil.copytree(world.path, tmp_path / "ledger")
    done = change_cells(tmp_path / "ledger", chance)
    for line in COMMANDS:
        words = line.format(worker=worker).split()
        result = run(tmp_path / "ledger", *words)
        error = result.exception
        assert error is None or isinstance(error, LedgerError | SystemExit), (
            done,
            line,
            error,
        )
        assert "\x1b" not in result.output, (done, line)
