"""A ledger's month from the first credit to the last payment, that can be gone on with.

Every step may be taken again, as those do who got no answer: the backbone asks for the
same grant, the worker files the same vouchers, the operator looks at what the bank did.
So a month that was cut off anywhere and is begun again must end as one that was not.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ledger.claims import IssuedGrant
from ledger.payout_list import payouts
from ledger.policy import Policy
from ledger.store import Store
from ledger.voucher import voucher_hash
from p2pmoe.payouts.adapter import Order, Outcome, OutcomeKind
from p2pmoe.payouts.payees import Payee, Payees
from p2pmoe.payouts.sending import orders_of, send_orders
from tests.support.dispute_papers import claim_of, signed_claim
from tests.support.ledger_world import NOVEMBER_US, Party, World
from tests.support.paid_world import DECEMBER_US
from tests.support.standby_world import book, fill_pot, paper_of

__all__ = ["Month"]

_HOUR_US = 3_600_000_000
_TERMS = Policy(
    fee_ppm=10_000,
    holdback_ppm=100_000,
    holdback_us=60 * _HOUR_US,
    standby_uc=100_000,
)
_N_WORKERS = 3
_RATE = "1 credit = 1000 EUR"


class _Bank:
    """Pays at once and says so to whoever looks; twice under one key is once."""

    name = "bank"
    max_orders = 1

    def __init__(self, tell: Callable[[str], None], reach: Callable[[], None]) -> None:
        self._tell = tell
        self._reach = reach

    def refusal(self, _payee: Payee) -> str:
        return ""

    def send(self, orders: Sequence[Order]) -> list[Outcome]:
        for order in orders:
            self._reach()
            self._tell(f"paid {order.id} {order.amount_minor}")
            self._reach()
        return [Outcome(kind=OutcomeKind.SENT, reference=f"r-{o.id}") for o in orders]


class Month:
    """The script; `told` is what earlier tries said."""

    def __init__(
        self,
        path: Path,
        told: Sequence[str] = (),
        tell: Callable[[str], None] = lambda _: None,
        reach: Callable[[], None] = lambda: None,
    ) -> None:
        self.world = World()
        self.workers = [Party(f"worker {n}") for n in range(_N_WORKERS)]
        self._path = path
        self._told = [line.split() for line in told]
        self._tell = tell
        self._bank = _Bank(tell, reach)

    def paid(self) -> dict[str, int]:
        """Payments outside so far, by payout."""
        return {words[1]: int(words[2]) for words in self._told if words[0] == "paid"}

    def run(self) -> None:
        """Do everything, from wherever it stands."""
        world = self.world
        with world.open(self._path, credit_uc=0, terms=_TERMS) as store:
            store.fund(world.backbone.id, 10_000_000, "november").result(60)
            self._serve(store)
            world.now_us = NOVEMBER_US + 30 * _HOUR_US
            store.tend()
            self._stand_by(store)
            self._end_dispute(store)
            for hours in (100, 200, 300):
                world.now_us = NOVEMBER_US + hours * _HOUR_US
                store.tend()
            world.now_us = DECEMBER_US
            store.operate("period.close", {"name": "2026-11"}).result(60)
            self._tell("closed")
            self._pay(store)

    def _serve(self, store: Store) -> None:
        for n, worker in enumerate(self.workers):
            order = self.world.order(worker=worker, request=n, ceiling_uc=100_000)
            issued = self._known_grant(n) or store.grant(order).result(60)
            self._tell(f"grant {n} {issued.raw.hex()} {issued.signature.hex()}")
            tab = self.world.tab(issued, worker=worker, tab=b"tab-%04d" % n)
            made = [tab.next(1, 2), tab.next(3), tab.next(5, 6, final=n > 0)]
            futures = [store.file(*one, worker.id) for one in made]
            for (signed, _), future in zip(made, futures, strict=True):
                assert future.result(60).status in {0, 1}, future.result()
                self._tell(f"filed {voucher_hash(signed.raw).hex()}")
            if n == 1 and not self._has("disputed"):
                raw, signature = signed_claim(claim_of(tab, 2), tab.backbone)
                params = {"claim": raw.hex(), "signature": signature.hex()}
                store.operate("dispute.open", params).result(60)
                self._tell("disputed")

    def _stand_by(self, store: Store) -> None:
        """The pot is filled, and an epoch's replicas are paid; all of it twice."""
        paper = paper_of(self.world, *self.workers, pot_uc=100_000)
        for _ in range(2):
            fill_pot(store, 150_000)
            assert book(store, self.world, paper).paid_uc > 60_000
            self._tell(f"booked {paper.content_hash.hex()}")

    def _known_grant(self, n: int) -> IssuedGrant | None:
        for words in self._told:
            if words[:2] == ["grant", str(n)]:
                raw, signature = (bytes.fromhex(word) for word in words[2:])
                return IssuedGrant(raw=raw, signature=signature)
        return None

    def _has(self, word: str) -> bool:
        return any(words[0] == word for words in self._told)

    def _end_dispute(self, store: Store) -> None:
        """Nobody answered in time: the second worker has lost it by now."""
        with store.reader().session() as connection:
            rows = connection.exec_driver_sql("select state from dispute").all()
        assert [row[0] for row in rows] == ["upheld"]

    def _pay(self, store: Store) -> None:
        params: dict[str, Any] = {
            "period": "2026-11",
            "adapter": "bank",
            "rate": _RATE,
            "payees": [
                {"worker": w.id.hex(), "destination": w.name} for w in self.workers
            ],
            "commit": True,
        }
        payees = Payees(
            good={w.id: Payee(worker=w.id, name=w.name) for w in self.workers}
        )

        def ask(name: str, params: Mapping[str, object]) -> Mapping[str, Any]:
            return store.operate(name, params).result(60)

        is_open = True
        while is_open:  # until nobody is left who was not paid
            ask("payout.prepare", params)
            self._tell("prepared")
            prepared = self._in(store, "prepared")
            orders, skipped = orders_of(prepared, payees, self._bank)
            assert not skipped
            send_orders(ask, self._bank, orders)
            is_open = self._resolve(store)
        for one in self._in(store, "sent"):
            ask("payout.confirm", {"id": one["id"], "commit": True})
            self._tell(f"confirmed {one['id']}")

    def _resolve(self, store: Store) -> bool:
        """Say of what is unresolved what the bank did; whether somebody got nothing."""
        unresolved = self._in(store, "unresolved")
        for one in unresolved:
            words = {"id": one["id"], "paid": one["id"] in self.paid(), "commit": True}
            store.operate("payout.resolve", words).result(60)
            self._tell(f"resolved {one['id']}")
        return any(one["id"] not in self.paid() for one in unresolved)

    def _in(self, store: Store, *states: str) -> list[dict[str, Any]]:
        with store.reader().session() as connection:
            return [one for one in payouts(connection) if one["state"] in states]
