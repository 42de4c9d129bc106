"""Payouts whose command is killed with SIGKILL around a send (fault B40).

Whatever happens, nothing is paid twice: what was being sent becomes unresolved, waits
for the operator, and after he resolved it by what the outside says, everyone was paid
exactly what was planned.
"""

import signal
import subprocess
import sys

import pytest
from sqlalchemy import select

from ledger.payout_list import payouts
from ledger.schema import account
from tests.support.paid_world import RATE, PaidWorld, copied, payee_rows
from tests.support.payout_process import POINTS, paid_outside

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return PaidWorld(tmp_path_factory.mktemp("paid") / "ledger", 4)


def prepare(store, world):
    params = {"period": "2026-11", "adapter": "bank", "rate": RATE, "commit": True}
    params["payees"] = payee_rows(*world.workers)
    return store.operate("payout.prepare", params).result(60)["payouts"]


def send(world, outside, point):
    command = [sys.executable, "-m", "tests.support.payout_process"]
    words = [str(world.path), str(outside), point]
    return subprocess.run([*command, *words], check=False, timeout=120).returncode


def listed(store, *states):
    with store.reader().session() as connection:
        return [row for row in payouts(connection) if row["state"] in states]


@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_nothing_is_paid_twice(template, tmp_path, point):
    world = copied(template, tmp_path / "ledger")
    outside = tmp_path / "outside"
    with world.open(world.path) as store:
        planned = {one["id"]: one["amount_minor"] for one in prepare(store, world)}
    assert send(world, outside, point) == -signal.SIGKILL
    n_lost = {"before start": 0, "after start": 1, "before record": 1}.get(point, 0)
    # Run again, twice: what is unresolved is told each time it is found, never paid.
    assert send(world, outside, "none") == (3 if n_lost else 0)
    assert send(world, outside, "none") == 0
    paid = paid_outside(outside)
    assert len(paid) == len(set(paid))
    with world.open(world.path) as store:
        lost = listed(store, "unresolved")
        assert len(lost) == n_lost
        assert prepare(store, world) == []
        for one in lost:
            is_paid = one["id"] in paid
            assert is_paid == (point == "before record")
            params = {"id": one["id"], "paid": is_paid, "commit": True}
            store.operate("payout.resolve", params).result(60)
        again = prepare(store, world)
        assert [one["attempt"] for one in again] == [2] * (4 - len(paid))
    assert send(world, outside, "none") == 0
    with world.open(world.path) as store:
        for one in listed(store, "sent"):
            params = {"id": one["id"], "commit": True}
            store.operate("payout.confirm", params).result(60)
        done = listed(store, "confirmed")
        assert sorted(one["id"] for one in done) == sorted(paid_outside(outside))
        assert sum(one["amount_minor"] for one in done) == sum(planned.values())
        with store.reader().session() as connection:
            kinds = ("worker_available", "payout_clearing")
            rows = connection.execute(select(account).where(account.c.kind.in_(kinds)))
            for row in rows:
                rest_uc = row.credits_uc - row.debits_uc
                limit_uc = 10 if row.kind == "worker_available" else 1
                assert 0 <= rest_uc < limit_uc
