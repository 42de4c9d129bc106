"""kill -9 at 200 points around every write, sync, commit, tile and payment of a month.

After each, what was acknowledged is there, and the month that is gone on with ends with
the same balances and the same payments as one that was never cut off, and verifies.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from ledger.audit import verify_ledger
from ledger.balances import balances
from ledger.database import Reader
from ledger.schema import filing
from ledger.schema_standby import standby_paper
from tests.support.crash_points import CrashPoints, crashed_at
from tests.support.month_of_a_ledger import Month

pytestmark = pytest.mark.slow

N_POINTS = int(os.environ.get("P2PMOE_CRASH_POINTS", "200"))
_VERIFIED = 8  # every so manieth is audited: balances alone would show most faults
Balances = dict[tuple[bytes, str], int]


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where there is room: what is killed is a process, not the machine."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
    with tempfile.TemporaryDirectory(dir=memory) as path:
        yield Path(path)


def run_until(path: Path, at: int) -> tuple[bool, list[str]]:
    """Run the month in a child that ends at a point; 0 for none."""

    def history(points: CrashPoints) -> None:
        Month(path, tell=points.tell, reach=points.reach).run()

    return crashed_at(at, history)


def killed_at(path: Path, at: int) -> list[str]:
    """Run a month that is killed at a point, or at its last if it has fewer.

    What is filed together goes into one commit or several, as the threads come to it,
    so that no two months need have as many points.
    """
    was_killed, told = run_until(path, at)
    while not was_killed:
        shutil.rmtree(path)
        at = min(at - 1, int(told[-1].split()[1]))
        was_killed, told = run_until(path, at)
    return told


def final_balances(path: Path) -> Balances:
    with Reader(path).session() as connection:
        lines = balances(connection)
    assert sum(line.balance_uc for line in lines) == 0
    return {(line.owner, line.kind): line.balance_uc for line in lines}


def check_what_was_told(path: Path, told: list[str]) -> None:
    """Nothing acknowledged is lost."""
    with Reader(path).session() as connection:
        stored = set(connection.execute(select(filing.c.content_hash)).scalars())
        stored |= set(connection.execute(select(standby_paper.c.hash)).scalars())
    for line in told:
        word, *rest = line.split()
        if word in {"filed", "booked"}:
            assert bytes.fromhex(rest[0]) in stored, line


def finish(path: Path, told: list[str]) -> Month:
    """Go on with a month that was cut off, until its end."""
    month = Month(path, told, tell=told.append)
    month.run()
    return Month(path, told)


def test_b35_killed_anywhere_nothing_is_lost_and_nothing_paid_twice(
    folder: Path,
) -> None:
    was_killed, told = run_until(folder / "whole", 0)
    assert not was_killed
    n_points = int(told.pop().split()[1])
    whole = Month(folder / "whole", told)
    expected = final_balances(folder / "whole"), sorted(whole.paid().values())
    assert n_points >= N_POINTS
    for number in range(N_POINTS):
        at = 1 + number * n_points // N_POINTS
        path = folder / "cut"
        told = killed_at(path, at)
        if told:
            check_what_was_told(path, told)
        month = finish(path, told)
        paid = sorted(month.paid().values())
        assert (final_balances(path), paid) == expected, at
        if number % _VERIFIED == 0:
            verify_ledger(Reader(path), month.world.identity)
        shutil.rmtree(path)
