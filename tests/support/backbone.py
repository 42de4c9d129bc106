"""Fakes at the backbone's seams: a node that only records, accounts that only count."""

from dataclasses import dataclass, field
from random import Random

import numpy as np

from mobile_worker.arithmetic.coding import ExpertInput, Floats, quantize_rows
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.errors import SendQueueFull
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import Cancel, Dispatch, Message, Output, OutputError
from p2pmoe.backbone.audits import Dispute
from p2pmoe.backbone.cost import CallSample
from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.dispatcher import Dispatcher, DispatcherParts, SpotChecks
from p2pmoe.backbone.exchange import LayerWork, Reply
from p2pmoe.backbone.fleet import Fleet
from p2pmoe.backbone.plan import ExpertRows, LayerPlan, Tier, WorkerCalls
from p2pmoe.backbone.servings import Accounts, Means, Served, ServingSlot
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from relay.keys import PeerId

__all__ = ["N_EMBD", "CountingAccounts", "DispatchRig", "peer_id"]

N_EMBD = 32
LAYER = 1


def peer_id(n: int) -> PeerId:
    """Return a made-up peer id."""
    return PeerId(bytes([n]) * 32)


@dataclass
class CountingAccounts:
    """Accounts that number servings and remember what became of them."""

    numbered: list[ServingSlot] = field(default_factory=list)
    accepted: list[Served] = field(default_factory=list)
    abandoned: list[ServingSlot] = field(default_factory=list)
    withheld: list[PeerId] = field(default_factory=list)
    without_grant: list[PeerId] = field(default_factory=list)
    broke: set[PeerId] = field(default_factory=set)
    next_serving: int = 0
    rooms: dict[PeerId, int] = field(default_factory=dict)

    def room(self, peer: PeerId) -> int:
        return 0 if peer in self.broke else self.rooms.get(peer, 1000)

    def number(self, peer: PeerId, n_calls: int, n_rows: int) -> ServingSlot | None:
        if peer in self.broke:
            return None
        slot = ServingSlot(
            peer=peer,
            tab=peer[:8],
            first=self.next_serving,
            n=n_calls,
            n_rows=n_rows,
            price_epoch=1,
        )
        self.next_serving += n_calls
        self.numbered.append(slot)
        return slot

    def accept(self, served: Served) -> None:
        self.accepted.append(served)

    def abandon(self, slot: ServingSlot) -> None:
        self.abandoned.append(slot)

    def withhold(self, peer: PeerId) -> None:
        self.withheld.append(peer)

    def refused_for_grant(self, peer: PeerId) -> None:
        self.without_grant.append(peer)

    def add_up(self) -> bool:
        """Say whether each number was either accepted or abandoned, once."""
        ends = [s.slot.first for s in self.accepted] + [s.first for s in self.abandoned]
        return sorted(ends) == [slot.first for slot in self.numbered]


class DispatchRig:
    """A dispatcher with workers that answer when told to; expert e returns (e+1)x."""

    def __init__(
        self,
        holders: dict[int, set[int]],
        *,
        local_allowed: bool = True,
        check_rate: float = 0.0,
        first_passes: int = 0,
        hedging: bool = True,
        accounts: Accounts | None = None,
    ) -> None:
        """Make workers from {worker number: experts of layer 1}, all live."""
        self.now = 100.0
        self.sent: list[tuple[PeerId, Message]] = []
        self.full: set[PeerId] = set()
        self.fleet = Fleet()
        self.accounts = CountingAccounts()
        self.counters = BackboneCounters()
        self.local_allowed = local_allowed
        self.disputes: list[Dispute] = []
        self.is_judged = False
        self.place(holders)
        self.dispatcher = Dispatcher(
            DispatcherParts(
                send=self._send,
                fleet=self.fleet,
                accounts=accounts or self.accounts,
                counters=self.counters,
                clock=lambda: self.now,
                random=Random(1),
                checks=SpotChecks(
                    rate=check_rate,
                    newcomer_rate=check_rate,
                    first_passes=first_passes,
                ),
                on_dispute=self._dispute,
                hedging=hedging,
            )
        )

    def place(self, holders: dict[int, set[int]]) -> None:
        """Make these workers live and payable holders."""
        self.fleet.place(
            {
                peer_id(n): (Tier.EDGE, [ExpertId(LAYER, e) for e in experts])
                for n, experts in holders.items()
            }
        )
        for n in holders:
            self.revive(n)

    def revive(self, n: int) -> None:
        """Have a worker answer a greeting."""
        self.fleet.greeting(peer_id(n), self.now)
        self.fleet.greeted(peer_id(n))
        self.fleet.set_means(peer_id(n), Means.ROOM)

    def _dispute(self, dispute: Dispute) -> bool:
        self.disputes.append(dispute)
        return self.is_judged

    def measured(self, n: int, seconds: float, n_calls: int = 32) -> None:
        """Have worker n be known for answers in so many seconds."""
        for _ in range(n_calls):
            self.fleet.workers[peer_id(n)].cost.observe(
                CallSample(elapsed_s=seconds, compute_s=0.0, n_rows=1, n_bytes=900)
            )

    def earn_hedges(self, n_dispatches: int = 20) -> None:
        """Earn one hedge by 20 dispatches, of a worker of its own, all answered."""
        held = {w.peer[0]: w.experts[LAYER] for w in self.fleet.workers.values()}
        self.place({**{n: set(experts) for n, experts in held.items()}, 200: {7}})
        for _ in range(n_dispatches):
            work = self.work({200: {7: (0,)}}, n_rows=1)
            self.dispatcher.start(work)
            self.answer(200, self.dispatches(200)[-1])

    def _send(self, peer: PeerId, message: Message) -> None:
        if peer in self.full:
            raise SendQueueFull("no room")
        self.sent.append((peer, message))

    def work(
        self,
        remote: dict[int, dict[int, tuple[int, ...]]],
        *,
        stranded: dict[int, tuple[int, ...]] | None = None,
        n_rows: int = 3,
        deadline_s: float = 30.0,
        **waits: object,
    ) -> LayerWork:
        """Return a layer's work from {worker: {expert: rows}}, not started yet."""
        plan = LayerPlan(
            layer=LAYER,
            remote=tuple(
                WorkerCalls(peer=peer_id(n), tier=Tier.EDGE, calls=_calls(calls))
                for n, calls in remote.items()
            ),
            stranded=_calls(stranded or {}),
        )
        return self.work_of(plan, n_rows=n_rows, deadline_s=deadline_s, **waits)

    def work_of(
        self,
        plan: LayerPlan,
        *,
        n_rows: int,
        deadline_s: float = 30.0,
        **waits: object,
    ) -> LayerWork:
        """Return the work of a layer that is planned already."""
        x = np.arange(n_rows * N_EMBD, dtype=np.float32).reshape(n_rows, N_EMBD) + 1
        return LayerWork(
            plan=plan,
            rows=ExpertInput(coded=quantize_rows(x), floats=x),
            n_embd=N_EMBD,
            profile=Profile.R32,
            deadline=self.now + deadline_s,
            local_allowed=self.local_allowed,
            trace=StepTrace.of(RequestTrace(), n_rows),
            **waits,
        )

    def dispatches(self, n: int) -> list[Dispatch]:
        """Return what worker n was asked, oldest first."""
        return [m for p, m in self.sent if p == peer_id(n) and isinstance(m, Dispatch)]

    def cancels(self, n: int) -> list[int]:
        """Return the requests that worker n was told to forget."""
        return [
            m.request for p, m in self.sent if p == peer_id(n) and isinstance(m, Cancel)
        ]

    def rows_of(self, dispatch: Dispatch) -> Floats:
        """Return the right results of a dispatch, f32 [n, n_embd]."""
        x = np.frombuffer(dispatch.floats or b"", "<f4").reshape(-1, N_EMBD)
        return np.concatenate(
            [x[list(call.rows)] * (call.index + 1) for call in dispatch.calls]
        ).astype(np.float32)

    def answer(
        self,
        n: int,
        dispatch: Dispatch,
        *,
        rows: Floats | None = None,
        error: OutputError = OutputError.OK,
        results: bytes | None = None,
    ) -> None:
        """Have worker n answer: rightly, or with these rows, bytes or error."""
        if error is not OutputError.OK:
            rows, results = np.zeros((0, N_EMBD), np.float32), b""
        if rows is None:
            rows = self.rows_of(dispatch)
        if results is None:
            results = rows.astype("<f4").tobytes()
        output = Output(
            request=dispatch.request,
            error=int(error),
            compute_us=10,
            n_rows_total=len(rows),
            results=results,
        )
        self.dispatcher.on_output(peer_id(n), output, len(results) + 40)

    def wait(self, seconds: float) -> None:
        """Let time pass, and let the dispatcher act on it."""
        self.now += seconds
        self.dispatcher.expire()

    @staticmethod
    def replies(work: LayerWork) -> list[Reply]:
        """Take out what the decode thread would read."""
        found = []
        while not work.replies.empty():
            found.append(work.replies.get())
        return found


def _calls(calls: dict[int, tuple[int, ...]]) -> tuple[ExpertRows, ...]:
    return tuple(ExpertRows(expert=e, rows=rows) for e, rows in sorted(calls.items()))
