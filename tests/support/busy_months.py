"""Three months of a ledger as it runs: everything that can become of a voucher.

Two workers and two backbones, fees, holdbacks, two price epochs, finals, tabs that
close with their grants, refused vouchers, disputes lost and open, payouts that arrived
and that failed: all through the store and its operations. Everything is derived: the
same ledger each time.
"""

import dataclasses
from pathlib import Path
from typing import Any

from ledger.policy import Policy
from ledger.prices import PriceTable
from ledger.store import Store
from tests.support.dispute_papers import claim_of
from tests.support.disputes import opened
from tests.support.ledger_world import DAY_US, NOVEMBER_US, Party, TabSide, World

__all__ = ["END_US", "TERMS", "BusyMonths"]

END_US = NOVEMBER_US + 92 * DAY_US  # 2027-02-01
_CLOSED_ON = {32: "2026-11", 64: "2026-12"}
_DISPUTED_ON = {16, 40, 72}  # the last one is still open in the end
TERMS = Policy(fee_ppm=33_333, holdback_ppm=250_000, holdback_us=20 * DAY_US)


class BusyMonths(World):
    """Months of November 2026 to January 2027."""

    def __init__(self, path: Path) -> None:
        super().__init__(base_uc=1000)
        self.path = path
        self.workers = [Party("worker 1"), Party("worker 2")]
        self.backbones = [Party("backbone 1"), Party("backbone 2")]
        self.n_tabs = 0
        cheap = self.prices
        dear = PriceTable(
            network=self.network.id,
            manifest_hash=self.manifest_hash,
            epoch=8,
            base_uc=2000,
            multipliers={1 << 16 | 3: 3 << 15, 2: 1 << 15},  # 0/2 is plentiful
        )
        with self.open(path, credit_uc=10**12, terms=TERMS) as store:
            for day in range(0, 75, 8):
                self.prices = cheap if day < 20 else dear  # within November
                self.now_us = NOVEMBER_US + day * DAY_US
                store.tend()
                if day in _CLOSED_ON:
                    self.close_and_pay(store, _CLOSED_ON[day])
                self.serve_all(store, day)
                if day in _DISPUTED_ON:
                    self.dispute(store)
            store.tend()

    def serve_all(self, store: Store, day: int) -> None:
        for n, worker in enumerate(self.workers):
            for m, backbone in enumerate(self.backbones):
                tab = self.new_tab(store, worker, backbone)
                tab.file(store, *range(n + m, n + m + 5), 12, 13)
                self.now_us += 1
                signed, block = tab.next(30 + day, final=False)
                forged = dataclasses.replace(signed, worker_signature=bytes(64))
                if day % 16:
                    store.file(forged, block, worker.id).result(60)
                store.file(signed, block, backbone.id).result(60)
                if day % 24 == 8:
                    store.file(tab.forged(), b"", worker.id).result(60)
                if day % 24:
                    tab.file(store, 200, final=True)

    def dispute(self, store: Store) -> None:
        """Close a voucher and question it; the worker never answers, and loses it."""
        worker, backbone = self.workers[0], self.backbones[0]
        tab = self.new_tab(store, worker, backbone)
        tab.file(store, 0, 1, 2, final=True)
        opened(store, claim_of(tab, 1), backbone)

    def new_tab(self, store: Store, worker: Party, backbone: Party) -> TabSide:
        self.n_tabs += 1
        order = self.order(worker=worker, backbone=backbone, ceiling_uc=10**6)
        issued = store.grant(order).result(60)
        tab = b"tab-%04d" % self.n_tabs
        return self.tab(issued, worker=worker, backbone=backbone, tab=tab)

    def close_and_pay(self, store: Store, name: str) -> None:
        """Close a month; the first worker's payout arrives, the other's fails."""
        self.operate(store, "period.close", name=name)
        payees = [
            {"worker": one.id.hex(), "destination": "Ada"} for one in self.workers
        ]
        done = self.operate(
            store,
            "payout.prepare",
            period=name,
            adapter="bank",
            rate="1 credit = 1000 EUR",
            payees=payees,
            commit=True,
        )
        by_worker = {one["worker"]: one["id"] for one in done["payouts"]}
        ids = [by_worker[worker.id.hex()] for worker in self.workers]
        self.operate(store, "payout.start", payouts=[{"id": each} for each in ids])
        outcomes = [
            {"id": each, "state": state}
            for each, state in zip(ids, ("confirmed", "failed"), strict=True)
        ]
        self.operate(store, "payout.record", outcomes=outcomes)

    def operate(self, store: Store, operation: str, **params: object) -> Any:
        return store.operate(operation, params).result(60)
