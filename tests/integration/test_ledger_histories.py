"""Any sequence of what can happen to a ledger, beside its rules as plain numbers.

Every operation goes through the store: grants, filings (also of one side, twice,
refused, equivocating), standby pay, disputes, audits, time, periods, payouts, restarts.
After each step all balances are those of the model. In the end they are rebuilt from
the transfers, each pending amount went one way at most, statements add up to the trial
balance and, over adjacent periods, to both; closed periods are unchanged, and the audit
passes.
"""

import dataclasses
import os
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ledger.beacon_rows import Audited
from ledger.beacon_words import AuditState
from ledger.errors import InsufficientFunds, PotEmpty
from ledger.policy import Policy
from tests.support.beacons import audits, convicted, decide, word
from tests.support.dispute_papers import answer_of, claim_of
from tests.support.disputes import answered, judged, opened
from tests.support.ledger_checks import check_books, held_balances
from tests.support.ledger_tabs import BASE_UC, Tab
from tests.support.ledger_world import (
    DAY_US,
    HOUR_US,
    NOVEMBER_US,
    Party,
    TabSide,
    World,
)
from tests.support.money_model import Key, MoneyModel, Question, Terms
from tests.support.payout_steps import PAYOUT_ACTIONS, PayoutSteps
from tests.support.standby_world import book, fill_pot, paper_of

CENT_UC = 10_000
WORKERS, BACKBONES = ("w1", "w2", "w3"), ("b1", "b2")
ANY = st.integers(0, 1 << 30)
_SOURCES = ("external", "fee")
SEED = os.environ.get("P2PMOE_HISTORY_SEED")  # other histories than those of every run


class LedgerMachine(RuleBasedStateMachine):
    """The store and the model, doing the same."""

    make_folder = staticmethod(lambda path: path)

    def __init__(self) -> None:
        super().__init__()
        memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
        self.temporary = tempfile.TemporaryDirectory(dir=memory)
        self.folder = self.make_folder(Path(self.temporary.name) / "ledger")
        self.world = World(base_uc=BASE_UC)
        self.parties = {name: Party(name) for name in (*WORKERS, *BACKBONES)}
        self.names = {party.id: name for name, party in self.parties.items()}
        self.tabs: list[Tab] = []
        self.asked: list[tuple[Question, int, TabSide]] = []
        self.n_bodies = 0
        self.caught: dict[str, Key] = {}  # by an audit, each worker in one voucher

    @initialize(
        fee_ppm=st.sampled_from([0, 10_000, 333_333]),
        holdback_ppm=st.sampled_from([0, 100_000, 999_999]),
        dispute_h=st.sampled_from([0, 24, 48]),
    )
    def begin(self, fee_ppm: int, holdback_ppm: int, dispute_h: int) -> None:
        terms = Policy(
            fee_ppm=fee_ppm,
            holdback_ppm=holdback_ppm,
            dispute_us=dispute_h * HOUR_US,
            holdback_us=72 * HOUR_US,
            answer_us=12 * HOUR_US,
            standby_uc=100_000_000,
        )
        self.store = self.world.open(self.folder, credit_uc=0, terms=terms)
        self.model = MoneyModel(self.world.now_us, self.terms_of(terms))
        self.payouts = PayoutSteps(self.model)
        self.draw()  # the first beacon covers nothing
        for name in BACKBONES:
            self.fund(BACKBONES.index(name), 40_000_000, "first")

    @staticmethod
    def terms_of(policy: Policy) -> Terms:
        names = [field.name for field in dataclasses.fields(Terms)]
        return Terms(**{name: getattr(policy, name) for name in names})

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.check_all()
            self.store.close()
        self.temporary.cleanup()

    # -- money in, grants -----------------------------------------------------

    @rule(
        who=ANY,
        uc=st.sampled_from([1, 999_999, 5_000_000]),
        note=st.sampled_from("abc"),
    )
    def fund(self, who: int, uc: int, note: str) -> None:
        name = BACKBONES[who % len(BACKBONES)]
        note = f"{note} {uc}"
        if self.store.fund(self.parties[name].id, uc, note).result(60):
            self.model.fund(name, uc)
        assert self.store.fund(self.parties[name].id, uc, note).result(60) is False

    @rule(who=ANY, whom=ANY, ceiling=st.sampled_from([300_000, 3_000_000, 30_000_000]))
    def grant(self, who: int, whom: int, ceiling: int) -> None:
        backbone, worker = BACKBONES[who % 2], WORKERS[whom % 3]
        order = self.world.order(
            worker=self.parties[worker],
            backbone=self.parties[backbone],
            ceiling_uc=ceiling,
        )
        expected = self.model.grant(backbone, worker, ceiling)
        if expected is None:
            with pytest.raises(InsufficientFunds):
                self.store.grant(order).result(60)
            return
        issued = self.store.grant(order).result(60)
        assert self.store.grant(order).result(60) == issued  # a lost answer
        side = self.world.tab(
            issued,
            worker=self.parties[worker],
            backbone=self.parties[backbone],
            tab=len(self.tabs).to_bytes(8, "big"),
        )
        key = Key(backbone=backbone, worker=worker)
        self.tabs.append(Tab(side, expected, key))

    @rule(who=ANY, whom=ANY, n=st.integers(1, 6), final=st.booleans())
    def serve_a_tab(self, who: int, whom: int, n: int, final: bool) -> None:
        n_before = len(self.tabs)
        self.grant(who, whom, 3_000_000)
        if len(self.tabs) > n_before:
            self.file(n_before, n_before, n, final=False)
            self.file(n_before, n_before, 1, final=final)

    # -- vouchers -------------------------------------------------------------

    def some_tab(self, at: int) -> Tab:
        return self.tabs[at % len(self.tabs)]

    @precondition(lambda self: self.tabs)
    @rule(at=ANY, other=ANY, n=st.integers(1, 4), final=st.booleans())
    def file(self, at: int, other: int, n: int, final: bool) -> None:
        tab = self.some_tab(at)
        if tab.half:
            return
        newer = self.some_tab(other)  # a further grant of the pair may be named
        if (newer.key.worker, newer.key.backbone) == (tab.key.worker, tab.key.backbone):
            tab.side.grant, tab.grant = newer.side.grant, newer.grant
        trial = tab.trial()
        numbers, uc = trial.servings(n)
        refusal = self.model.refusal(tab.key, tab.grant, uc)
        if refusal:
            answer = trial.side.file(self.store, *numbers, final=final)
            assert (answer.status, answer.reason) == (2, refusal), answer
            return
        numbers, uc = tab.servings(n)
        signed, block = tab.side.next(*numbers, final=final)
        sender = tab.side.worker.id
        assert self.store.file(signed, block, sender).result(60).status == 0
        self.model.file(tab.key, tab.grant, uc, final=final)
        assert self.store.file(signed, b"", sender).result(60).status == 1

    @precondition(lambda self: self.tabs)
    @rule(at=ANY, n=st.integers(1, 3))
    def file_half(self, at: int, n: int) -> None:
        tab = self.some_tab(at)
        trial = tab.trial()
        numbers, uc = trial.servings(n)
        if tab.half or self.model.refusal(tab.key, tab.grant, uc):
            return
        numbers, uc = tab.servings(n)
        final, block = tab.side.one_sided(*numbers)
        answer = self.store.file(final, block, tab.side.backbone.id).result(60)
        assert (answer.status, answer.reason) == (0, "held"), answer
        tab.half = final, uc

    def waiting(self) -> list[Tab]:
        """Tabs whose final waits for the worker."""
        return [tab for tab in self.tabs if tab.half and not tab.is_over]

    @precondition(lambda self: self.waiting())
    @rule(at=ANY)
    def sign_half(self, at: int) -> None:
        tab = self.waiting()[at % len(self.waiting())]
        assert tab.half is not None
        final, uc = tab.half
        refusal = self.model.refusal(tab.key, tab.grant, uc)
        half = tab.side.worker_half(final)
        answer = self.store.file(half, b"", tab.side.worker.id).result(60)
        if refusal:
            assert (answer.status, answer.reason) == (2, refusal), answer
        else:
            assert answer.status == 0, answer
            self.model.file(tab.key, tab.grant, uc, final=True)
            tab.half = None
        tab.is_over = True

    @precondition(lambda self: any(t.key.n_filed and not t.half for t in self.tabs))
    @rule(at=ANY)
    def equivocate(self, at: int) -> None:
        filed = [tab for tab in self.tabs if tab.key.n_filed and not tab.half]
        side = filed[at % len(filed)].side
        self.n_bodies += 1
        assert side.previous is not None
        later = side.previous.issued_us + self.n_bodies
        other = side.sign(dataclasses.replace(side.previous, issued_us=later))
        assert self.store.file(other, b"", side.backbone.id).result(60).status == 2
        self.model.convict(self.names[side.worker.id], (side.tab, side.previous.number))

    # -- time, terms, restarts ------------------------------------------------

    @rule(hours=st.sampled_from([1, 11, 24, 49, 80]))
    def pass_time(self, hours: int) -> None:
        self.world.now_us += hours * HOUR_US
        self.model.now_us = self.world.now_us

    @rule()
    def tend(self) -> None:
        self.store.tend()
        self.model.tend()
        assert self.store.tend().is_done

    @rule(fee_ppm=st.sampled_from([0, 20_000]), answer_h=st.sampled_from([6, 12]))
    def change_terms(self, fee_ppm: int, answer_h: int) -> None:
        self.pass_time(1)
        changes = {"fee_ppm": fee_ppm, "answer_us": answer_h * HOUR_US}
        self.store.operate("policy.set", {**changes, "commit": True}).result(60)
        self.model.terms = dataclasses.replace(self.model.terms, **changes)

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = self.world.open(self.folder, credit_uc=0)
        self.pass_time(1)  # a ledger that was away for long is patient for an hour

    # -- standby pay ----------------------------------------------------------

    @rule(uc=st.sampled_from([1, 70_000, 9_000_000]), source=st.sampled_from(_SOURCES))
    def fill_pot(self, uc: int, source: str) -> None:
        self.n_bodies += 1
        note = str(self.n_bodies)
        name = "fees" if source == "fee" else "outside"
        if self.model.fill_pot(source, uc):
            assert fill_pot(self.store, uc, note, name)["new"]
            assert not fill_pot(self.store, uc, note, name)["new"]
            return
        with pytest.raises(InsufficientFunds):
            fill_pot(self.store, uc, note, name)

    @rule(
        names=st.sets(st.sampled_from((*WORKERS, "stranger")), min_size=1),
        pot_uc=st.sampled_from([1, 100_000, 5_000_000, 90_000_000]),
    )
    def stand_by(self, names: set[str], pot_uc: int) -> None:
        self.n_bodies += 1
        held_by = [self.parties.get(name) or Party(name) for name in names]
        paper = paper_of(
            self.world,
            *held_by,
            pot_uc=pot_uc,
            manifest_hash=self.n_bodies.to_bytes(32, "big"),
            price_table_hash=bytes(32),
        )
        known = self.model.known()
        pay = {self.names.get(who, ""): uc for who, uc in paper.pay().items()}
        paid = {name: uc for name, uc in pay.items() if name in known}
        if not self.model.stand_by(paid):
            with pytest.raises(PotEmpty):
                book(self.store, self.world, paper)
            return
        booked = book(self.store, self.world, paper)
        assert (booked.is_repeat, booked.paid_uc) == (False, sum(paid.values()))
        assert book(self.store, self.world, paper).is_repeat

    # -- disputes -------------------------------------------------------------

    def closed(self) -> list[Tab]:
        """Tabs whose newest voucher closed them."""
        return [tab for tab in self.tabs if tab.key.is_closed and not tab.half]

    @precondition(lambda self: self.closed())
    @rule(at=ANY, serving=ANY, by_worker=st.booleans())
    def dispute(self, at: int, serving: int, by_worker: bool) -> None:
        tab = self.closed()[at % len(self.closed())]
        number = sorted(tab.side.leaves)[serving % len(tab.side.leaves)]
        if not self.model.may_dispute(tab.key, number, by_worker=by_worker):
            return
        claim = claim_of(tab.side, number, by_worker=by_worker)
        by = tab.side.worker if by_worker else tab.side.backbone
        row = opened(self.store, claim, by)
        question = self.model.dispute(tab.key, number, by_worker=by_worker)
        self.asked.append((question, int(row["id"]), tab.side))
        self.claims = {**getattr(self, "claims", {}), int(row["id"]): claim}

    def pending(self) -> list[tuple[Question, int, TabSide]]:
        return [each for each in self.asked if each[0].is_pending]

    @precondition(lambda self: self.pending())
    @rule(at=ANY)
    def answer(self, at: int) -> None:
        question, number, side = self.pending()[at % len(self.pending())]
        if self.model.answer(question):
            by = side.backbone if question.by_worker else side.worker
            answered(self.store, answer_of(side, self.claims[number]), by)

    @precondition(lambda self: any(not q.by_worker for q, _, _ in self.pending()))
    @rule(at=ANY, is_right=st.booleans())
    def judge(self, at: int, is_right: bool) -> None:
        of_results = [each for each in self.pending() if not each[0].by_worker]
        question, number, _ = of_results[at % len(of_results)]
        recomputed = self.claims[number].leaf.out_hash if is_right else bytes(16)
        judged(self.store, number, recomputed, commit=False)
        judged(self.store, number, recomputed)
        self.model.decide(question, upheld=not is_right)

    # -- audits ---------------------------------------------------------------

    @rule()
    def draw(self) -> None:
        self.store.cast_beacon().result(60)

    def drawn(self) -> list[Audited]:
        return [each for each in audits(self.store) if each.decided_us is None]

    @precondition(lambda self: self.drawn())
    @rule(at=ANY, state=st.sampled_from(["passed", "failed", "unjudged", "unasked"]))
    def look_again(self, at: int, state: str) -> None:
        audited = self.drawn()[at % len(self.drawn())]
        key = self.tabs[int.from_bytes(audited.leaf.tab, "big")].key
        if state != "failed":
            said = (word("referee", audited.leaf),) if state == "passed" else ()
            decide(self.store, audited, state=AuditState(state), words=said)
            return
        if self.caught.setdefault(key.worker, key) is not key:
            return  # twice, and it gets no grant any more
        found = convicted(self.store, audited)
        assert found is not None
        assert found.is_reversed == self.model.fail_audit(key)

    # -- periods and payouts --------------------------------------------------

    @rule()
    def close_period(self) -> None:
        start_us = self.model.ends[-1] if self.model.ends else NOVEMBER_US
        end_us = self.world.now_us // DAY_US * DAY_US
        if start_us >= end_us:
            return
        first, after = (
            (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).date()
            for us in (start_us, end_us)
        )
        params = {"name": f"{first}..{after}"}
        closed = self.store.operate("period.close", params).result(60)
        assert (closed["start_us"], closed["end_us"]) == (start_us, end_us)
        assert self.store.operate("period.close", params).result(60)["already"]
        self.model.ends.append(end_us)
        self.payouts.names.append(params["name"])

    @precondition(lambda self: self.model.ends)
    @rule(at=ANY)
    def prepare(self, at: int) -> None:
        at %= len(self.model.ends)
        end_us = self.model.ends[at]
        wanted = {
            name: amount
            for name in WORKERS
            if (amount := self.model.payable(name, end_us, CENT_UC))
        }
        workers = {name: self.parties[name].id.hex() for name in WORKERS}
        made = self.payouts.prepare(self.store, at, workers)
        assert {name: uc for name, _, uc in made} == wanted
        for name, payout_id, uc in made:
            self.payouts.add(payout_id, self.model.prepare(name, end_us, uc))

    @rule(hours=st.sampled_from([24, 80]))
    def pay_day(self, hours: int) -> None:
        self.pass_time(hours)
        self.tend()
        self.pass_time(24)
        self.close_period()
        self.prepare(len(self.model.ends) - 1)

    @precondition(lambda self: self.model.payouts)
    @rule(
        at=ANY,
        actions=st.lists(st.sampled_from(PAYOUT_ACTIONS), min_size=1, max_size=4),
    )
    def step_payout(self, at: int, actions: list[str]) -> None:
        for action in actions:
            self.payouts.step(self.store, at, action)

    # -- what always holds ----------------------------------------------------

    @invariant()
    def balances_are_the_models(self) -> None:
        if hasattr(self, "store"):
            wanted = {key: uc for key, uc in self.model.balances.items() if uc}
            found = held_balances(self.store, self.names)
            assert found == wanted, dict(found.items() ^ wanted.items())

    def check_all(self) -> None:
        self.store.tend()
        self.model.tend()
        self.balances_are_the_models()
        check_books(self.store, self.world)


def run(n_examples: int, n_steps: int, make_folder=None) -> None:
    """Run the machine; its folders may be in another database."""
    machine = LedgerMachine
    if make_folder is not None:
        made = Counter[str]()

        def numbered(path: Path) -> Path:
            made["n"] += 1
            return make_folder(path.with_name(f"ledger-{made['n']}"))

        machine = type(
            "Machine", (LedgerMachine,), {"make_folder": staticmethod(numbered)}
        )
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=n_examples,
            stateful_step_count=n_steps,
            deadline=None,
            derandomize=SEED is None,
            phases=(Phase.explicit, Phase.reuse, Phase.generate),  # no shrinking
        ),
    )


def test_a_short_history():
    run(4, 25)


@pytest.mark.slow
def test_long_histories():
    run(20, 50)


@pytest.mark.slow
def test_histories_on_postgresql(postgres_server):
    run(2, 30, postgres_server.prepare)
