"""Prefetching with a small model, a clock of its own and workers that are functions."""

from collections.abc import Callable, Mapping

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.cost import CallSample, LocalCost, WorkerCost
from p2pmoe.backbone.experts_at_hand import HotSet
from p2pmoe.backbone.plan import Holder, Tier
from p2pmoe.backbone.prefetch.fetch_work import (
    Came,
    Fetching,
    FetchReply,
    FetchWork,
    Lack,
    Lacking,
    Wanted,
)
from p2pmoe.backbone.prefetch.prefetch import Prefetch, PrefetchParts
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.backbone.use import UseCounts
from relay.keys import PeerId
from tests.support.backbone import peer_id
from tests.support.small_model import N_EXPERT, N_LAYER, small_model

__all__ = ["SIZES", "PrefetchRig"]

MODEL = small_model()
SIZES = {entry.expert: entry.n_bytes for entry in MODEL.manifest.experts}
Answer = Callable[[Wanted], FetchReply | None]


class PrefetchRig:
    """Everything that prefetching works with; workers answer as `answers` says.

    A fetch takes `rtt_s` and its bytes at `bytes_s`; what gets no answer never comes,
    and whoever waits for it looks at the clock until its patience is over.
    """

    def __init__(
        self,
        *,
        rtt_s: float = 0.1,
        bytes_s: float = 1e8,
        hot_bytes: int = 0,
        buffer_bytes: int = 1 << 20,
        n_workers: int = 1,
        pays: bool = False,
    ) -> None:
        self.now = 1000.0
        self.look_s = 0.0  # what each look at the clock takes
        self.rtt_s, self.bytes_s = rtt_s, bytes_s
        self.answers: Answer = self.right
        self.works: list[FetchWork] = []
        self.stopped: list[FetchWork] = []
        self.is_silent = False
        self.use = UseCounts(N_LAYER, N_EXPERT, N_LAYER - 1)
        self.hot = HotSet(SIZES, hot_bytes, self._read, next_use=self.use.next_use)
        self.holder = [_holder(n, rtt_s) for n in range(1, n_workers + 1)]
        self.prefetch = Prefetch(
            PrefetchParts(
                hot=self.hot,
                use=self.use,
                cost=LocalCost(),
                fleet=self,
                fetching=Fetching(
                    start=self._start,
                    stop=self.stopped.append,
                    manifest=MODEL.manifest,
                ),
                row_bytes=100,
                buffer_bytes=buffer_bytes,
                pays=lambda uses: pays,
                monotonic=self._clock,
            )
        )

        for layer in range(1, N_LAYER):  # lists are no use yet
            for _ in range(60):
                self.prefetch._reach.saw(layer, (0,), {1})

    def holders(self, layer: int) -> Mapping[int, tuple[Holder, ...]]:
        """Who has what: expert e is the e-th worker's."""
        n = len(self.holder)
        return {e: (self.holder[e % n],) for e in range(N_EXPERT)}

    def fetch(
        self, *lists: dict[int, tuple[int, ...]], deadline: float = 1e9
    ) -> StepTrace:
        """Fetch for a step of one request and return it."""
        step = StepTrace.of(RequestTrace())
        self.prefetch.fetch(lists, step, deadline)
        return step

    def measured(self) -> None:
        """Let links be measured, and lists have turned out to be what is needed."""
        everything = {layer: tuple(range(N_EXPERT)) for layer in range(1, N_LAYER)}
        for _ in range(3):
            self.fetch(everything)
            self.now += 200.0
        for _ in range(60):
            step = StepTrace.of(RequestTrace())
            step.ahead = self.fetch({}).ahead
            for layer, experts in everything.items():
                self.prefetch._reach.saw(layer, experts, experts)
        self.works.clear()

    def right(self, wanted: Wanted) -> FetchReply | None:
        """What an honest worker does."""
        shard = memoryview(MODEL.shards[wanted.expert])
        return Came(wanted=wanted, shard=shard, at=self.now)

    def wrong(self, wanted: Wanted) -> FetchReply | None:
        """What a hostile one does: as many other bytes."""
        shard = memoryview(bytes(SIZES[wanted.expert]))
        return Came(wanted=wanted, shard=shard, at=self.now)

    def no(self, wanted: Wanted) -> FetchReply | None:
        """What one says that has no room."""
        return Lacking(wanted=wanted, why=Lack.BUSY)

    def _start(self, work: FetchWork) -> None:
        self.works.append(work)
        self.now += self.rtt_s
        for wanted in work.wanted:
            self.now += SIZES[wanted.expert] / self.bytes_s
            if (reply := self.answers(wanted)) is not None:
                work.replies.put(reply)

    def _clock(self) -> float:
        self.now += self.look_s
        return self.now

    def _read(self, expert: ExpertId) -> object:
        raise AssertionError(f"{expert} was read from a disk")


def _holder(n: int, rtt_s: float) -> Holder:
    cost = WorkerCost(rtt_s=rtt_s)
    for _ in range(20):
        sample = CallSample(elapsed_s=rtt_s, compute_s=0.0, n_rows=1, n_bytes=100)
        cost.observe(sample)
    return Holder(peer=PeerId(peer_id(n)), tier=Tier.EDGE, cost=cost)
