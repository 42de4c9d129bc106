"""Payouts in any order, at any rate, ended in any way: nothing is paid twice, and the
auditor agrees with every history that the ledger could write."""

import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from ledger.audit import verify_ledger
from ledger.payout_list import payouts
from ledger.periods import format_us, parse_period
from ledger.schema import account
from ledger.schema_closing import closing, payout_item
from tests.support.ledger_world import NOVEMBER_US, Party, World
from tests.support.paid_world import payee_rows

pytestmark = pytest.mark.slow

WORKERS = [Party("worker 0"), Party("worker 1")]
RATES = ["1 credit = 1000 EUR", "1 credit = 300 EUR", "1 credit = 10000 JPY"]
ENDINGS = ["void", "failed", "sent", "confirmed", "unresolved", "paid", "not-paid"]
STEPS = st.one_of(
    st.tuples(st.just("serve"), st.integers(0, 1), st.integers(1, 6)),
    st.tuples(st.just("month")),
    st.tuples(st.just("prepare"), st.integers(0, 5), st.sampled_from(RATES)),
    st.tuples(st.just("end"), st.integers(0, 9), st.sampled_from(ENDINGS)),
)


class History:
    """One ledger and what was done to it."""

    def __init__(self, world: World, store) -> None:
        self.world, self.store = world, store
        self.periods: list[str] = []
        self.month_us = NOVEMBER_US
        self.tabs = itertools.count()

    def serve(self, n_worker: int, n_servings: int) -> None:
        worker = WORKERS[n_worker]
        issued = self.store.grant(self.world.order(worker=worker)).result(60)
        tab = self.world.tab(issued, worker=worker, tab=b"tab-%04d" % next(self.tabs))
        tab.file(self.store, *range(n_servings), final=True)

    def month(self) -> None:
        name = format_us(self.month_us)[:7]
        self.month_us = parse_period(name).end_us
        self.world.now_us = max(self.world.now_us, self.month_us - 1)
        self.store.tend()
        self.world.now_us = self.month_us
        self.operate("period.close", name=name)
        self.periods.append(name)

    def prepare(self, n_period: int, rate: str) -> None:
        if not self.periods:
            return
        name = self.periods[n_period % len(self.periods)]
        params = {"period": name, "adapter": "bank", "rate": rate, "commit": True}
        self.operate("payout.prepare", payees=payee_rows(*WORKERS), **params)

    def end(self, n_payout: int, ending: str) -> None:
        rows = self.rows("prepared", "sent", "unresolved")
        if not rows:
            return
        row = rows[n_payout % len(rows)]
        named = {"id": row["id"], "commit": True}
        match row["state"], ending:
            case "prepared", "void":
                self.operate("payout.void", **named)
            case "prepared", "sent" | "failed" | "confirmed" | "unresolved":
                self.operate("payout.start", payouts=[{"id": row["id"]}])
                outcome = {"id": row["id"], "state": ending}
                self.operate("payout.record", outcomes=[outcome])
            case "sent", "confirmed":
                self.operate("payout.confirm", **named)
            case "sent" | "unresolved", "paid" | "not-paid":
                self.operate("payout.resolve", paid=ending == "paid", **named)

    def operate(self, name: str, /, **params: object) -> None:
        self.store.operate(name, params).result(60)

    def rows(self, *states: str) -> list[dict[str, object]]:
        with self.store.reader().session() as connection:
            return [row for row in payouts(connection) if row["state"] in states]

    def check(self) -> None:
        dead = {row["id"] for row in self.rows("failed", "void")}
        confirmed_uc = sum(row["amount_uc"] for row in self.rows("confirmed"))
        with self.store.reader().session() as connection:
            items = connection.execute(select(payout_item)).all()
            living = [
                (item.voucher_id, item.part)
                for item in items
                if item.payout_id.hex() not in dead
            ]
            assert len(living) == len(set(living))
            released_uc = sum(
                row.net_uc
                for row in connection.execute(select(closing))
                if row.state == "released"
            )
            kinds = ("worker_available", "payout_clearing")
            rows = connection.execute(select(account).where(account.c.kind.in_(kinds)))
            left_uc = sum(row.credits_uc - row.debits_uc for row in rows)
        assert confirmed_uc + left_uc == released_uc
        verify_ledger(self.store.reader(), self.world.identity)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=4, max_size=24))
def test_any_history_of_payouts_adds_up(steps):
    world = World()
    with (
        tempfile.TemporaryDirectory() as folder,
        world.open(Path(folder) / "ledger") as store,
    ):
        history = History(world, store)
        history.serve(0, 3)
        history.month()
        for name, *arguments in steps:
            getattr(history, name)(*arguments)
        history.check()
