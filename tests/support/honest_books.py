"""One ledger's folder with everything in it that an audit must follow, built honestly.

Three workers and two backbones over three months: late servings, refused vouchers,
finals and keys that closed with their grant, a fee that was raised, disputes with every
outcome, a worker that equivocated, finals of one side, holdbacks given back, standby
pay, two closed months, payouts, a witnessed log. Built once for each process, copied.
"""

import atexit
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from ledger.equivocation import equivocations
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
from tests.support.standby_world import EPOCH_US, book, paper_of

__all__ = ["WITNESS", "copy_of_honest_books"]

DECEMBER_US = NOVEMBER_US + 30 * DAY_US
JANUARY_US = DECEMBER_US + 31 * DAY_US
WITNESS = Party("witness")
_TERMS = Policy(
    fee_ppm=25_000,
    holdback_ppm=100_000,
    holdback_us=20 * DAY_US,
    dispute_us=48 * HOUR_US,
    answer_us=24 * HOUR_US,
    standby_uc=2000,
)


def copy_of_honest_books(folder: Path) -> World:
    """Put the honest books into a folder that is not there yet; return their world."""
    built, world = _built()
    shutil.copytree(built, folder)
    return world


@cache
def _built() -> tuple[Path, World]:
    place = tempfile.mkdtemp(prefix="honest-books-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    folder = Path(place) / "ledger"
    build = _Build(World())
    with build.world.open(folder, terms=_TERMS) as store:
        build.store = store
        build.november()
        build.december()
        build.january()
    return folder, build.world


@dataclass
class _Build:
    world: World
    store: Store = field(init=False)
    n_tabs: int = 0

    def tab(self, name: str, backbone: str = "backbone") -> TabSide:
        """A new tab of a worker, under a new grant."""
        worker, client = Party(name), Party(backbone)
        order = self.world.order(worker=worker, backbone=client, ceiling_uc=5000)
        self.n_tabs += 1
        return self.world.tab(
            self.store.grant(order).result(60),
            worker=worker,
            backbone=client,
            tab=b"tab-%04d" % self.n_tabs,
        )

    def closed(self, name: str, *servings: int) -> TabSide:
        """A tab whose first voucher is its last."""
        tab = self.tab(name)
        assert tab.file(self.store, *servings, final=True).status == 0
        return tab

    def operate(self, operation: str, /, **params: object) -> Mapping[str, object]:
        return self.store.operate(operation, params).result(60)

    def dispute(self, tab: TabSide, serving: int, *, by_worker: bool = False) -> None:
        claim = claim_of(tab, serving, by_worker=by_worker)
        opener = tab.worker if by_worker else tab.backbone
        raw, signature = signed_claim(claim, opener)
        self.operate("dispute.open", claim=raw.hex(), signature=signature.hex())

    def answer(self, tab: TabSide, serving: int, *, to_worker: bool = False) -> None:
        answer = answer_of(tab, claim_of(tab, serving, by_worker=to_worker))
        respondent = tab.backbone if to_worker else tab.worker
        raw, signature = signed_answer(answer, respondent)
        self.operate("dispute.answer", answer=raw.hex(), signature=signature.hex())

    def cosign(self) -> None:
        """A witness says that it saw the newest checkpoint."""
        shown = (self.store.folder.log / "checkpoint").read_bytes()
        key = witness_key("witness.example", WITNESS.id)
        time_s = self.world.now_us // 10**6
        note = cosign(SignedNote.parse(shown), key, WITNESS.sign, time_s)
        self.operate("log.cosign", note=note.pack().hex(), witness=key.text)

    def prepare(self, month: str, *names: str) -> list[str]:
        """Prepare the payouts of some workers, at 30 micro-credits a cent."""
        payees = [
            {"worker": Party(name).id.hex(), "destination": name} for name in names
        ]
        done = self.operate(
            "payout.prepare",
            period=month,
            adapter="bank",
            rate="0.00003 credits = 0.01 EUR",
            payees=payees,
            commit=True,
        )
        return [payout["id"] for payout in done["payouts"]]

    def send(self, payout: str, state: str) -> None:
        self.operate("payout.start", payouts=[{"id": payout}])
        self.operate("payout.record", outcomes=[{"id": payout, "state": state}])

    def november(self) -> None:
        """Servings, closings, disputes; the windows end."""
        world, store = self.world, self.store
        first = self.tab("ada")
        first.file(store, 0, 1, 2)
        world.now_us += HOUR_US
        first.file(store, 5)
        first.file(store, 4, final=True)
        self.unfinished = self.tab("ada", backbone="other backbone")
        self.unfinished.file(store, *range(10))
        self.refused(self.tab("bob"))
        judged = self.closed("bob", 0, 1, 2, 3)
        lost = self.closed("bob", 0, 1, 7)
        opened = self.closed("ada", 0, 3)
        self.store.tend()
        world.now_us += HOUR_US
        self.dispute(judged, 2)
        self.dispute(lost, 1)
        self.dispute(lost, 7)
        self.dispute(opened, 3, by_worker=True)
        self.answer(judged, 2)
        self.answer(opened, 3, to_worker=True)
        self.answer(lost, 7)
        world.now_us += HOUR_US
        right = claim_of(judged, 2).leaf.out_hash.hex()
        judgement = {"recomputed": right, "referee": "a third worker", "commit": True}
        self.operate("dispute.judge", id=1, **judgement)
        self.store.tend()
        self.one_sided()
        world.now_us += 30 * HOUR_US  # nobody answered about the lost one
        self.store.tend()
        self.operate("policy.set", fee_ppm=50_000, commit=True)
        twice = self.closed("eve", 0, 1, 2, 3)
        world.now_us += HOUR_US
        self.equivocate(twice)
        world.now_us += 60 * HOUR_US  # grants end, windows are over
        self.store.tend()
        self.standby()

    def standby(self) -> None:
        """Two epochs of replicas, one of them held by somebody who is not known."""
        held_by = (Party("ada"), Party("bob"))
        for note, source in (("a gift", "outside"), ("of fees", "fees")):
            fill = {"amount_uc": 5 if source == "fees" else 5000, "source": source}
            self.operate("standby.fund", note=note, commit=True, **fill)
        for others in ((), (Party("nobody"),)):
            self.world.now_us += EPOCH_US
            paper = paper_of(self.world, *held_by, *others, pot_uc=2000)
            assert book(self.store, self.world, paper).paid_uc > 1000

    def refused(self, tab: TabSide) -> None:
        """One voucher with a wrong signature, then the right one."""
        signed, block = tab.next(0, 1, final=True)
        wrong = replace(signed, backbone_signature=signed.worker_signature)
        self.store.file(wrong, block, tab.worker.id).result(60)
        self.store.file(signed, block, tab.worker.id).result(60)

    def one_sided(self) -> None:
        """Finals of the backbone alone: one is signed later, one never."""
        for is_signed in (True, False):
            tab = self.tab("bob")
            tab.file(self.store, 0, 1)
            final, block = tab.one_sided(2, 3)
            self.store.file(final, block, tab.backbone.id).result(60)
            if is_signed:
                half = tab.worker_half(final)
                self.store.file(half, b"", tab.worker.id).result(60)

    def equivocate(self, tab: TabSide) -> None:
        """A second body of a number that was signed already."""
        signed = tab.sign(tab.previous)
        other = tab.sign(replace(tab.previous, issued_us=tab.previous.issued_us + 1))
        for proof in equivocations(signed, other):
            self.operate("equivocation.report", proof=proof.pack().hex(), commit=True)

    def december(self) -> None:
        """November is closed; holdbacks go back; a late voucher."""
        world = self.world
        world.now_us = DECEMBER_US - HOUR_US
        tab = self.tab("ada")
        late, block = tab.next(0, 1, 2, 3, final=True)
        world.now_us = DECEMBER_US + HOUR_US
        self.operate("period.close", name="2026-11")
        self.cosign()
        self.payouts()
        self.store.file(late, block, tab.worker.id).result(60)
        self.closed("bob", *range(8))
        self.store.tend()
        world.now_us += 5 * DAY_US
        self.store.tend()

    def payouts(self) -> None:
        """One arrives; one fails and is prepared again, twice."""
        (paid,) = self.prepare("2026-11", "ada")
        (lost,) = self.prepare("2026-11", "bob")
        self.send(paid, "sent")
        self.send(lost, "unresolved")
        self.world.now_us += HOUR_US
        self.operate("payout.confirm", id=paid, reference="bank 17", commit=True)
        self.operate("payout.resolve", id=lost, paid=False, commit=True)
        (voided,) = self.prepare("2026-11", "bob")
        self.operate("payout.void", id=voided, reason="wrong name", commit=True)
        (again,) = self.prepare("2026-11", "bob")
        self.send(again, "sent")

    def january(self) -> None:
        """December is closed; one grant is open, one dispute pending."""
        self.world.now_us = JANUARY_US + HOUR_US
        self.store.tend()
        self.operate("period.close", name="2026-12")
        self.prepare("2026-12", "ada", "bob", "eve")
        self.cosign()
        self.dispute(self.closed("bob", 0, 1), 1)
        self.tab("ada").file(self.store, 0, 1)
        self.tab("bob")
        self.store.tend()
