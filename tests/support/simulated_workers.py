"""Workers that answer a dispatcher in their time, on a clock that only jumps.

Nothing sleeps: time goes on to the next answer that arrives or the next moment at which
the dispatcher wants to look, whichever is sooner.
"""

import heapq
from collections.abc import Callable, Sequence
from itertools import count

from mobile_worker.messages import Dispatch
from p2pmoe.backbone.cost import LocalCost
from p2pmoe.backbone.exchange import LayerDone, LayerWork, Reply
from p2pmoe.backbone.plan import ExpertRows, LayerQuestion, plan_layer
from p2pmoe.config import DiskPolicy
from tests.support.backbone import LAYER, N_EMBD, DispatchRig

__all__ = ["Delay", "SimulatedWorkers"]

# What a dispatch takes a worker, from its sending to its answer.
Delay = Callable[[int, Dispatch], float]


class SimulatedWorkers:
    """The workers of a rig, each with its delays."""

    def __init__(self, rig: DispatchRig, delay: Delay) -> None:
        """Answer what the rig's dispatcher sends, `delay` later."""
        self.rig = rig
        self.delay = delay
        self.waits: list[float] = []
        self.silent: set[int] = set()  # they answer nothing any more
        self._seen = 0
        self._order = count()
        self._answers: list[tuple[float, int, int, Dispatch]] = []
        self._relaxed = rig.now

    @property
    def n_dispatches(self) -> int:
        """How many messages asked for something so far."""
        return sum(isinstance(m, Dispatch) for _, m in self.rig.sent)

    def run_layer(self, experts: Sequence[int]) -> list[Reply]:
        """Have one row go through these experts; return what came back."""
        return self.run(self.planned(experts))

    def planned(self, experts: Sequence[int]) -> LayerWork:
        """Return a layer's work as the decode thread plans it."""
        fleet = self.rig.fleet
        plan = plan_layer(
            LayerQuestion(
                layer=LAYER,
                calls=[ExpertRows(expert=e, rows=(0,)) for e in experts],
                at_hand=(),
                holders=fleet.holders(LAYER),
                disk=DiskPolicy.OFF,
                local=LocalCost(),
                row_bytes=5 * N_EMBD,
                expert_bytes=0,
            )
        )
        return self.rig.work_of(plan, n_rows=1)

    def run(self, work: LayerWork) -> list[Reply]:
        """Start a layer, and let time pass until it has ended."""
        start, replies = self.rig.now, []
        self.rig.dispatcher.start(work)
        while not replies or not isinstance(replies[-1], LayerDone):
            self.step()
            replies += self.rig.replies(work)
        self.waits.append(self.rig.now - start)
        return replies

    def step(self) -> None:
        """Go on to the next thing that happens."""
        rig = self.rig
        for peer, message in rig.sent[self._seen :]:
            if isinstance(message, Dispatch) and peer[0] not in self.silent:
                after = self.delay(peer[0], message)
                entry = (rig.now + after, next(self._order), peer[0], message)
                heapq.heappush(self._answers, entry)
        self._seen = len(rig.sent)
        looks_at = rig.dispatcher.next_time()
        arrives_at = self._answers[0][0] if self._answers else None
        at = min(t for t in (looks_at, arrives_at) if t is not None)
        rig.now = max(rig.now, at)
        if at == arrives_at:
            _, _, n, dispatch = heapq.heappop(self._answers)
            rig.answer(n, dispatch)
        if at == looks_at:
            rig.dispatcher.expire()
        if rig.now - self._relaxed >= 0.25:
            self._relaxed = rig.now
            rig.fleet.relax(rig.now)
            self._greet()

    def _greet(self) -> None:
        """Greet who is due, as the network side does; the silent do not answer."""
        fleet = self.rig.fleet
        for peer in fleet.to_greet(self.rig.now):
            fleet.greeting(peer, self.rig.now)
            if peer[0] not in self.silent:
                fleet.greeted(peer)

    def settle(self) -> None:
        """Let all that is out come to its end."""
        while self.rig.dispatcher.next_time() is not None or self._answers:
            self.step()
