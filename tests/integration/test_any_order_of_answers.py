"""Whatever workers do and in whatever order: one end a layer, one end a serving number.

Faults B11, B32 and B34 over random histories of a dispatcher with hedges: right, wrong,
refused, late, doubled and foreign answers, lost and busy workers, cancelled steps,
checks and disputes.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mobile_worker.messages import Dispatch, OutputError
from p2pmoe.backbone.exchange import (
    CheckTicket,
    ComputeHere,
    LayerDone,
    LayerFailed,
    LayerWork,
    Reply,
)
from p2pmoe.backbone.fleet import Status
from p2pmoe.backbone.hedging import HEDGE_EVERY
from p2pmoe.backbone.servings import Means
from p2pmoe.backbone.settlement import Settlement, SettlementTerms
from relay.keys import PeerId
from tests.support.backbone import DispatchRig, peer_id
from tests.support.money import NOW_US, Money
from tests.support.simulated_workers import SimulatedWorkers

MONEY = Money()
WORKERS = (1, 2, 3, 4)
EXPERTS = (0, 1, 2, 3)
N_EARNED = 60
HOLDERS = {1: {0, 1, 2}, 2: {0, 1, 2, 3}, 3: {1, 2, 3}, 4: {0, 3}}

LAYER_OF = st.sets(st.sampled_from(EXPERTS), min_size=1)
EVENT = st.one_of(
    st.tuples(st.just("start"), LAYER_OF),
    st.tuples(st.just("slow"), LAYER_OF),
    st.tuples(st.just("slow"), LAYER_OF),
    st.tuples(st.just("answer"), st.integers(0, 5)),
    st.tuples(st.just("answer"), st.integers(0, 5)),
    st.tuples(st.just("answer"), st.integers(0, 5)),
    st.tuples(st.just("lie"), st.integers(0, 5)),
    st.tuples(st.just("nonsense"), st.integers(0, 5)),
    st.tuples(
        st.just("error"), st.tuples(st.integers(0, 5), st.sampled_from(OutputError))
    ),
    st.tuples(st.just("foreign"), st.integers(0, 5)),
    st.tuples(st.just("busy"), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.sampled_from([0.001, 0.021, 0.021, 0.05, 0.5, 2.0])),
    st.tuples(st.just("lost"), st.sampled_from(WORKERS)),
    st.tuples(st.just("revive"), st.sampled_from(WORKERS)),
    st.tuples(st.just("cancel"), st.integers(0, 3)),
    st.tuples(st.just("check"), st.none()),
    st.tuples(st.just("judge"), st.booleans()),
)


@dataclass
class History:
    """A rig, what was started in it, and who lied."""

    rig: DispatchRig
    works: list[LayerWork] = field(default_factory=list)
    replies: dict[int, list[Reply]] = field(default_factory=dict)
    tickets: list[tuple[LayerWork, CheckTicket]] = field(default_factory=list)
    liars: set[PeerId] = field(default_factory=set)
    n_judged: int = 0

    def act(self, what: str, how: object) -> None:
        """Let one thing happen, and read what comes of it."""
        getattr(self, f"on_{what}")(how)
        for at, work in enumerate(self.works):
            for reply in self.rig.replies(work):
                self.replies.setdefault(at, []).append(reply)
                if isinstance(reply, LayerDone):
                    self.tickets += [(work, ticket) for ticket in reply.checks]

    def on_start(self, experts: set[int]) -> None:
        workers = SimulatedWorkers(self.rig, lambda n, dispatch: 0.0)
        work = workers.planned(sorted(experts))
        self.works.append(work)
        self.rig.dispatcher.start(work)

    def on_slow(self, experts: set[int]) -> None:
        """Start a layer that nobody answers until it is time to hedge it."""
        self.on_start(experts)
        for _ in range(3):
            self.rig.wait(0.021)

    def asked(self, back: int) -> tuple[int, Dispatch] | None:
        """Return a dispatch by its place from the end, answered or not."""
        sent = [
            (p[0], m)
            for p, m in self.rig.sent
            if isinstance(m, Dispatch) and p[0] in WORKERS
        ]
        return sent[-1 - back] if back < len(sent) else None

    def on_answer(self, back: int) -> None:
        if (found := self.asked(back)) is not None:
            self.rig.answer(*found)

    def on_lie(self, back: int) -> None:
        if (found := self.asked(back)) is not None:
            self.liars.add(peer_id(found[0]))
            rows = self.rig.rows_of(found[1]).copy()
            rows[:, 1] += 1
            self.rig.answer(*found, rows=rows)

    def on_nonsense(self, back: int) -> None:
        if (found := self.asked(back)) is not None:
            self.liars.add(peer_id(found[0]))
            rows = self.rig.rows_of(found[1]).copy()
            rows[0, 0] = np.nan
            self.rig.answer(*found, rows=rows)

    def on_error(self, how: tuple[int, OutputError]) -> None:
        if (found := self.asked(how[0])) is not None:
            self.rig.answer(*found, error=how[1])

    def on_foreign(self, back: int) -> None:
        if (found := self.asked(back)) is not None:
            self.rig.answer(1 + found[0] % 4, found[1])

    def on_busy(self, back: int) -> None:
        if (found := self.asked(back)) is not None:
            n, dispatch = found
            self.rig.dispatcher.on_busy(peer_id(n), dispatch.request, 50)

    def on_wait(self, seconds: float) -> None:
        self.rig.wait(seconds)

    def on_lost(self, n: int) -> None:
        self.rig.dispatcher.on_lost(peer_id(n))

    def on_revive(self, n: int) -> None:
        self.rig.revive(n)
        self.rig.dispatcher.retry_stranded()

    def on_cancel(self, at: int) -> None:
        if at < len(self.works):
            self.rig.dispatcher.cancel(self.works[at].trace)

    def on_check(self, _: None) -> None:
        """Give the decode thread's verdicts, by the truth."""
        tickets, self.tickets = self.tickets, []
        for work, ticket in tickets:
            done = next(r for r in self.replies[self.works.index(work)][::-1])
            assert isinstance(done, LayerDone)
            value = done.values[ticket.sample.expert]
            is_right = bool((value == right_rows(work, ticket.sample.expert)).all())
            self.rig.dispatcher.checked(ticket, passed=is_right)

    def on_judge(self, knows: bool) -> None:
        """Rule on what is disputed, by the truth or not at all."""
        for dispute in self.rig.disputes[self.n_judged :]:
            right = (
                right_rows(dispute.work, dispute.call.expert).astype("<f4").tobytes()
            )
            self.rig.dispatcher.ruled(dispute.number, right if knows else None)
        self.n_judged = len(self.rig.disputes)

    def end(self) -> None:
        """Let everything come to its end."""
        for _ in range(4):
            for what, how in (("wait", 40.0), ("check", None), ("judge", True)):
                self.act(what, how)


def right_rows(work: LayerWork, expert: int) -> np.ndarray:
    assert work.rows.floats is not None
    return work.rows.floats * np.float32(expert + 1)


def check_end(history: History) -> None:
    """Check what holds at the end of every history, whatever the accounts are."""
    rig = history.rig
    for at, work in enumerate(history.works):
        replies = history.replies[at]
        ends = [r for r in replies if isinstance(r, LayerDone | LayerFailed)]
        assert ends == [replies[-1]]
        if isinstance(ends[0], LayerDone):
            here = [
                c.expert for r in replies if isinstance(r, ComputeHere) for c in r.calls
            ]
            asked = [call.expert for call in work.plan.away]
            assert sorted([*here, *ends[0].values]) == sorted(asked)
            for expert, value in ends[0].values.items():
                is_right = bool((value == right_rows(work, expert)).all())
                assert is_right or history.liars
    assert rig.dispatcher.next_time() is None
    assert rig.dispatcher.in_flight() == {}
    assert all(w.cost.in_flight_rows == 0 for w in rig.fleet.workers.values())
    banned = {p for p, w in rig.fleet.workers.items() if w.status is Status.DROPPED}
    assert banned <= history.liars
    n_sent = sum(isinstance(m, Dispatch) for _, m in rig.sent)
    n_hedges = sum(rig.counters.hedges.values())
    assert n_hedges * HEDGE_EVERY <= N_EARNED + n_sent - n_hedges


@settings(max_examples=150, deadline=None)
@given(
    st.lists(EVENT, max_size=40),
    st.booleans(),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_every_layer_and_every_serving_ends_once(
    events: list[tuple[str, object]], has_disk: bool, check_rate: float
) -> None:
    rig = DispatchRig(HOLDERS, local_allowed=has_disk, check_rate=check_rate)
    history = lived(rig, events)
    check_end(history)
    assert rig.accounts.add_up()
    assert set(rig.accounts.withheld) <= history.liars


def lived(rig: DispatchRig, events: list[tuple[str, object]]) -> History:
    """Let events happen to a rig, and everything come to its end."""
    rig.is_judged = True
    for n in WORKERS:
        rig.measured(n, 0.020)
    for _ in range(N_EARNED):
        rig.dispatcher._hedges._budget.earn()  # as if so many were sent
    history = History(rig)
    for what, how in events:
        history.act(what, how)
    history.end()
    return history


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENT, max_size=40), st.sampled_from([4, 12, 64]))
def test_floats_and_ceilings_of_the_real_accounts_come_out_even(
    events: list[tuple[str, object]], float_leaves: int
) -> None:
    """What is at risk at the end is what was accepted, and nothing else."""
    settlement, means = accounts_of(float_leaves)
    rig = DispatchRig(HOLDERS, accounts=settlement)
    means.append(rig)
    history = lived(rig, events)
    check_end(history)
    n_accepted = Counter[PeerId]()
    for served in settlement.fresh:
        n_accepted[served.slot.peer] += served.slot.n
    numbers = [
        (served.slot.peer, served.slot.first + at)
        for served in settlement.fresh
        for at in range(served.slot.n)
    ]
    assert len(set(numbers)) == len(numbers)  # one receipt a serving at most
    for n in WORKERS:
        account = settlement._accounts[peer_id(n)]
        assert account.at_risk == n_accepted[peer_id(n)]
    assert settlement.totals().accepted == len(numbers)


def accounts_of(float_leaves: int) -> tuple[Settlement, list[DispatchRig]]:
    """Return accounts with a tab and a grant for every worker; rigs hear of means."""
    rigs: list[DispatchRig] = []

    def on_means(peer: PeerId, means: Means) -> None:
        for rig in rigs:
            rig.fleet.set_means(peer, means)

    terms = SettlementTerms(
        network=MONEY.network,
        manifest_hash=MONEY.manifest_hash,
        profile=0,
        backbone=PeerId(MONEY.backbone.peer_id),
    )
    settlement = Settlement(terms, lambda: NOW_US, on_means)
    prices = MONEY.prices()
    settlement.priced(prices)
    grant = MONEY.grant(prices, float_leaves=float_leaves)
    for n in WORKERS:
        settlement.greeted(peer_id(n), bytes([n]) * 8)
        settlement.granted(peer_id(n), grant.content_hash, grant)
    return settlement, rigs
