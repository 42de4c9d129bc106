"""Ledgers that lived through any sequence of honest events, for verifiers to agree on.

Events are numbers: which kind, and what it is about. An event that the ledger refuses
(too late, twice, nothing there) is an event as well.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ledger.equivocation import equivocations
from ledger.errors import LedgerError
from ledger.log.checkpoint import cosign, witness_key
from ledger.log.note import SignedNote
from ledger.policy import Policy
from ledger.store import Store
from tests.support.dispute_papers import (
    answer_of,
    claim_of,
    signed_answer,
    signed_claim,
)
from tests.support.ledger_world import (
    DAY_US,
    HOUR_US,
    NOVEMBER_US,
    Party,
    TabSide,
    World,
)

__all__ = ["EVENTS", "TERMS", "Life"]

WITNESS = Party("witness")
TERMS = Policy(
    fee_ppm=31_000,
    holdback_ppm=70_000,
    holdback_us=9 * DAY_US,
    dispute_us=2 * DAY_US,
    answer_us=DAY_US,
)


@dataclass
class Life:
    """A store and what happens to it."""

    world: World
    store: Store
    tabs: list[TabSide] = field(default_factory=list)
    payouts: list[str] = field(default_factory=list)
    days: int = 0

    def happen(self, kind: int, about: int) -> None:
        """Let one event happen; the ledger may refuse it."""
        with suppress(LedgerError):
            EVENTS[kind % len(EVENTS)](self, about)

    def operate(self, operation: str, /, **params: object) -> Mapping[str, object]:
        return self.store.operate(operation, params).result(60)

    def some_tab(self, about: int) -> TabSide:
        if not self.tabs:
            self.new_tab(about)
        return self.tabs[about % len(self.tabs)]

    def new_tab(self, about: int) -> None:
        worker, client = Party(f"worker {about % 3}"), Party(f"client {about % 2}")
        order = self.world.order(worker=worker, backbone=client, ceiling_uc=4000)
        issued = self.store.grant(order).result(60)
        name = len(self.tabs).to_bytes(8, "big")
        self.tabs.append(
            self.world.tab(issued, worker=worker, backbone=client, tab=name)
        )

    def serve(self, about: int) -> None:
        """Some servings, with holes that a late one may fill."""
        tab = self.some_tab(about)
        first = max(tab.leaves, default=-1) + 1 + about % 2
        late = [first - 1] if about % 7 == 6 and first - 1 not in tab.leaves else []
        new = [n for n in range(first, first + about % 5) if n not in tab.leaves]
        self.file(tab, [*late[:1], *new], final=False)

    def finish(self, about: int) -> None:
        tab = self.some_tab(about)
        first = max(tab.leaves, default=-1) + 1
        self.file(tab, list(range(first, first + about % 3)), final=True)

    def file(self, tab: TabSide, servings: Sequence[int], *, final: bool) -> None:
        if tab.previous is not None and tab.previous.final:
            return
        servings = [n for n in servings if n >= 0]
        signed, block = tab.next(*servings, final=final)
        self.store.file(signed, block, tab.worker.id).result(60)

    def finish_alone(self, about: int) -> None:
        """The backbone's final; the worker signs every other one."""
        tab = self.some_tab(about)
        if tab.previous is None or tab.previous.final:
            return
        first = max(tab.leaves, default=-1) + 1
        final, block = tab.one_sided(first, first + 1)
        self.store.file(final, block, tab.backbone.id).result(60)
        if about % 2:
            half = tab.worker_half(final)
            self.store.file(half, b"", tab.worker.id).result(60)

    def refuse(self, about: int) -> None:
        tab = self.some_tab(about)
        signed = tab.sign(tab.draft())
        wrong = replace(signed, worker_signature=bytes(64))
        self.store.file(wrong, b"", tab.worker.id).result(60)

    def equivocate(self, about: int) -> None:
        tab = self.some_tab(about)
        if tab.previous is None:
            return
        signed = tab.sign(tab.previous)
        other = tab.sign(replace(tab.previous, issued_us=tab.previous.issued_us + 1))
        for proof in equivocations(signed, other):
            self.operate("equivocation.report", proof=proof.pack().hex(), commit=True)

    def dispute(self, about: int) -> None:
        tab = self.some_tab(about)
        if not tab.leaves or tab.previous is None:
            return
        serving, by_worker = sorted(tab.leaves)[about % len(tab.leaves)], about % 3 == 0
        claim = claim_of(tab, serving, by_worker=by_worker)
        raw, signature = signed_claim(claim, tab.worker if by_worker else tab.backbone)
        self.operate("dispute.open", claim=raw.hex(), signature=signature.hex())
        if about % 4 == 1:
            return
        paper = answer_of(tab, claim)
        raw, signature = signed_answer(paper, tab.backbone if by_worker else tab.worker)
        self.operate("dispute.answer", answer=raw.hex(), signature=signature.hex())

    def judge(self, about: int) -> None:
        found = bytes(16) if about % 2 else None
        self.operate(
            "dispute.judge",
            id=1 + about % 3,
            recomputed=found.hex() if found else "",
            referee="somebody",
            commit=True,
        )

    def change_policy(self, about: int) -> None:
        self.operate("policy.set", fee_ppm=about * 1000, commit=True)

    def wait(self, about: int) -> None:
        self.world.now_us += (1 + about % 50) * HOUR_US
        self.store.tend()

    def wait_long(self, about: int) -> None:
        self.world.now_us += (1 + about % 12) * DAY_US
        self.store.tend()

    def close_month(self, _: int) -> None:
        days = (self.world.now_us - NOVEMBER_US) // DAY_US
        month = "2026-11" if days < 62 else "2026-12"
        self.operate("period.close", name="2026-11" if days < 61 else month)
        self.prepare(month)

    def prepare(self, month: str) -> None:
        payees = [
            {"worker": Party(f"worker {n}").id.hex(), "destination": f"payee {n}"}
            for n in range(3)
        ]
        done = self.operate(
            "payout.prepare",
            period=month,
            adapter="bank",
            rate="0.000007 credits = 0.03 EUR",
            payees=payees,
            commit=True,
        )
        self.payouts += [payout["id"] for payout in done["payouts"]]

    def pay(self, about: int) -> None:
        if not self.payouts:
            return
        payout = self.payouts[about % len(self.payouts)]
        if about % 5 == 0:
            self.operate("payout.void", id=payout, reason="", commit=True)
            return
        state = ("sent", "confirmed", "failed", "unresolved")[about % 4]
        self.operate("payout.start", payouts=[{"id": payout}])
        self.operate("payout.record", outcomes=[{"id": payout, "state": state}])

    def decide(self, about: int) -> None:
        if self.payouts:
            payout = self.payouts[about % len(self.payouts)]
            self.operate("payout.resolve", id=payout, paid=about % 3 > 0, commit=True)

    def witness(self, _: int) -> None:
        path = self.store.folder.log / "checkpoint"
        if path.exists():
            key = witness_key("witness.example", WITNESS.id)
            shown = SignedNote.parse(path.read_bytes())
            note = cosign(shown, key, WITNESS.sign, self.world.now_us // 10**6)
            self.operate("log.cosign", note=note.pack().hex(), witness=key.text)


EVENTS = (
    Life.new_tab,
    Life.serve,
    Life.serve,
    Life.finish,
    Life.finish,
    Life.finish_alone,
    Life.refuse,
    Life.equivocate,
    Life.dispute,
    Life.judge,
    Life.change_policy,
    Life.wait,
    Life.wait_long,
    Life.wait_long,
    Life.close_month,
    Life.pay,
    Life.decide,
    Life.witness,
)
