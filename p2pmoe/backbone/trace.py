"""Counters of one step, for each of the requests that share it.

Rules: each counter has one writing thread; a reader may see it a step late, never
torn. A step has rows of several requests, and each request gets what its own rows cost,
so that its figures do not depend on who shares the step: an expert call counts for each
request with a row in it, a wait for each whose rows waited; bytes and page faults are
divided by rows, and nothing of them is lost in rounding. What a failed step cost counts
as well. A `round trip` is one blocking wait of a lane for the network, whatever number
of messages flew in it (design, 08: A = round trips per committed token). Bytes are
those of message payloads, before encryption and framing.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from p2pmoe.backbone.generation import StepFigures, TierCalls, TracedHash
from p2pmoe.backbone.page_faults import thread_faults
from p2pmoe.backbone.pass_record import PassRecord
from p2pmoe.backbone.plan import ExpertRows, Tier
from p2pmoe.backbone.prefetch.buffer import Ahead  # noqa: TC001 - a field's type
from p2pmoe.backbone.request_trace import RequestTrace
from p2pmoe.passes.values import PassTrace

__all__ = ["RequestTrace", "StepTrace"]

_TIERS = tuple(Tier)


class StepTrace:
    """What one step costs each request that has rows in it; made by its decode thread.

    In a step of one part every row is that part's, however many rows there are.
    """

    __slots__ = (
        "_before",
        "_ended_s",
        "_faults",
        "_faults_before",
        "_first",
        "_hashes",
        "_monotonic",
        "_owner",
        "_remote",
        "_started_s",
        "_stopped",
        "ahead",
        "decoding",
        "is_traced",
        "n_cold",
        "n_rows",
        "record",
        "traces",
    )

    def __init__(
        self,
        parts: Sequence[tuple[RequestTrace, int]],
        *,
        record: PassRecord | None = None,
        monotonic: Callable[[], float] = time.perf_counter,
        faults: Callable[[], tuple[int, int]] = thread_faults,
    ) -> None:
        """Begin a step of `parts`: each request's counters and its rows, in order.

        `record` is told what the lane does. `faults` returns the calling thread's minor
        and major page faults so far.
        """
        self.record = PassRecord() if record is None else record
        self.ahead: Ahead | None = None  # weights that were fetched for it
        self.traces = tuple(trace for trace, _ in parts)
        self.decoding = tuple(trace.decoding for trace in self.traces)
        self.is_traced = any(trace.traces for trace in self.traces)
        self._owner: list[int] = []  # by row
        self._first: list[int] = []  # row of each part
        for part, (_, n_rows) in enumerate(parts):
            self._first.append(len(self._owner))
            self._owner += [part] * n_rows
        self.n_rows = len(self._owner)
        self._before = [_spent(trace) for trace in self.traces]
        self._hashes: dict[int, list[TracedHash]] = {}
        self._remote: list[ExpertRows] = []  # calls that workers computed
        self._stopped = False
        self.n_cold = 0  # expert calls that had to read from disk, each once
        self._monotonic = monotonic
        self._faults = faults
        self._faults_before = faults()
        self._started_s = monotonic()
        self._ended_s: float | None = None

    @classmethod
    def of(cls, trace: RequestTrace, n_rows: int = 1) -> "StepTrace":
        """Return a step of one request."""
        return cls([(trace, n_rows)])

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the step any more: each of its requests is cancelled."""
        return self._stopped or all(trace.cancelled for trace in self.traces)

    @property
    def owners(self) -> npt.NDArray[np.int64]:
        """Whose part each row is, [n_rows]."""
        return np.array(self._owner, np.int64)

    def stop(self) -> None:
        """Give this step up; its requests may run in others."""
        self._stopped = True

    # What happens in it.

    def called(self, tier: Tier, calls: Iterable[ExpertRows]) -> None:
        """Count expert calls that were computed."""
        calls = tuple(calls)
        if tier in {Tier.HUB, Tier.EDGE}:
            self._remote += calls
        for trace in self._each(calls):
            trace.calls[tier] += 1

    def computed_here(self, experts: npt.NDArray[np.int64]) -> None:
        """Count a layer's calls, all from RAM: `experts` int64 [n_rows, top_k]."""
        self.record.at_hand()
        if len(self.traces) == self.n_rows == len(experts):  # a row each
            for trace in self.traces:
                trace.calls[Tier.RAM] += experts.shape[1]
            return
        if len(self.traces) == 1:
            self.traces[0].calls[Tier.RAM] += len(np.unique(experts))
            return
        span = int(experts.max(initial=0)) + 1
        pairs = np.unique(self.owners[:, None] * span + experts)
        for trace, n in zip(
            self.traces,
            np.bincount(pairs // span, minlength=len(self.traces)).tolist(),
            strict=True,
        ):
            trace.calls[Tier.RAM] += n

    def read(self, call: ExpertRows, n_bytes: int) -> None:
        """Note what a call from disk had to read; nothing: it was cached."""
        self.n_cold += n_bytes > 0
        if not n_bytes:
            for trace in self._each((call,)):
                trace.cache_hits += 1
        for trace, share in self._shares((call,), n_bytes):
            trace.read_bytes += share

    def faulted(self, calls: Sequence[ExpertRows], minor: int, major: int) -> None:
        """Count page faults that another process had for calls."""
        for trace, share in self._shares(calls, minor):
            trace.minor_faults += share
        for trace, share in self._shares(calls, major):
            trace.major_faults += share

    def dropped(self, calls: Iterable[ExpertRows]) -> None:
        """Count calls that were left out."""
        for trace in self._each(calls):
            trace.dropped_calls += 1

    def failed_over(self, calls: Iterable[ExpertRows]) -> None:
        """Count calls that had to go elsewhere."""
        calls = tuple(calls)
        self.record.failed_over(len(calls))
        for trace in self._each(calls):
            trace.failovers += 1

    def hedged(self, calls: Sequence[ExpertRows]) -> None:
        """Count calls that a second worker is asked for as well."""
        self.record.hedged(calls)
        for trace in self._each(calls):
            trace.hedges += 1

    def fetched(self, seconds: float, n_experts: int, n_bytes: int) -> None:
        """Count one wait of the lane for weights before its pass, for every request."""
        self.record.fetched(seconds, n_experts, n_bytes)
        shares = _divided(n_bytes, [1] * len(self.traces))
        for trace, share in zip(self.traces, shares, strict=True):
            trace.fetched_bytes += share
            trace.tripped(seconds)

    def sent(self, calls: Sequence[ExpertRows], n_bytes: int) -> None:
        """Count the bytes of a message that asks for calls."""
        self.record.sent()
        for trace, share in self._shares(calls, n_bytes):
            trace.bytes_up += share

    def received(self, calls: Sequence[ExpertRows], n_bytes: int) -> None:
        """Count the bytes of a message that answers calls."""
        self.record.answered()
        for trace, share in self._shares(calls, n_bytes):
            trace.bytes_down += share

    def waited(self, calls: Iterable[ExpertRows], seconds: float) -> None:
        """Count one wait of the lane for the network, for whoever has a row in it."""
        self.record.waited(seconds)
        for part in set(chain.from_iterable(self._parts(call) for call in calls)):
            self.traces[part].tripped(seconds)

    def hashed(self, row: int, layer: int, expert: int | None, digest: bytes) -> None:
        """Keep the hash of a row of a request that is traced; see `TracedHash`."""
        part = self._owner[row] if len(self.traces) > 1 else 0
        self._hashes.setdefault(part, []).append(
            TracedHash(
                position=self.traces[part].position + row - self._first[part],
                layer=layer,
                expert=expert,
                digest=digest,
            )
        )

    def wants_hash(self, row: int) -> bool:
        """Say whether the row is a traced request's."""
        part = self._owner[row] if len(self.traces) > 1 else 0
        return self.traces[part].traces

    # What it came to.

    def begin_again(self) -> None:
        """Begin now: what was spent so far is told with another step under way."""
        self._before = [_spent(trace) for trace in self.traces]
        self._faults_before = self._faults()
        self._started_s = self._monotonic()

    def end(self) -> None:
        """Close the step, on its own thread: its time, and its page faults divided."""
        if self.ahead is not None:
            self.ahead.end()
        if self._ended_s is not None:
            return
        self._ended_s = self._monotonic()
        minor, major = self._faults()
        ends = [*self._first[1:], self.n_rows]
        n_rows = [end - first for first, end in zip(self._first, ends, strict=True)]
        minors = _divided(minor - self._faults_before[0], n_rows)
        majors = _divided(major - self._faults_before[1], n_rows)
        for trace, more, worse in zip(self.traces, minors, majors, strict=True):
            trace.minor_faults += more
            trace.major_faults += worse

    def figures(self, part: int) -> StepFigures:
        """Return what the step cost one of its requests, so far or at its end."""
        ended_s = self._monotonic() if self._ended_s is None else self._ended_s
        trace, before = self.traces[part], self._before[part]
        spent = [now - then for now, then in zip(_spent(trace), before, strict=True)]
        calls = TierCalls(**dict(zip(_TIERS, map(int, spent), strict=False)))
        wait_s, *counts = spent[len(_TIERS) :]
        trips, hits, read, minor, major, up, down, dropped = map(int, counts)
        return StepFigures(
            calls=calls,
            seconds=ended_s - self._started_s,
            wait_s=wait_s,
            round_trips=trips,
            n_rows=self.n_rows,
            cache_hits=hits,
            read_bytes=read,
            minor_faults=minor,
            major_faults=major,
            bytes_up=up,
            bytes_down=down,
            dropped_calls=dropped,
        )

    def told(self) -> PassTrace:
        """Return the pass, for all its requests; drafts and tokens are not in it."""
        ended_s = self._monotonic() if self._ended_s is None else self._ended_s
        seconds = ended_s - self._started_s
        return self.record.told(seconds, self.n_rows, len(self.traces))

    def n_remote_for(self, last_rows: Sequence[int]) -> int:
        """Return how many calls of workers had only some of each part's last rows."""
        ends = [*self._first[1:], self.n_rows]
        rows = {
            row
            for end, n in zip(ends, last_rows, strict=True)
            for row in range(end - n, end)
        }
        return sum(rows.issuperset(call.rows) for call in self._remote) if rows else 0

    def hashes(self, part: int) -> tuple[TracedHash, ...]:
        """Return a traced request's hashes by position, layer, and expert.

        A layer's input comes before its experts.
        """
        found = self._hashes.get(part, ())
        return tuple(sorted(found, key=_place_of_hash))

    # Whose is what.

    def _parts(self, call: ExpertRows) -> Iterable[int]:
        if len(self.traces) == 1:
            return (0,)
        return {self._owner[row] for row in call.rows}

    def _each(self, calls: Iterable[ExpertRows]) -> Iterator[RequestTrace]:
        """Yield a request for each call that it has a row in."""
        for call in calls:
            for part in self._parts(call):
                yield self.traces[part]

    def _shares(
        self, calls: Sequence[ExpertRows], total: int
    ) -> Iterator[tuple[RequestTrace, int]]:
        """Divide a number among requests by their rows in some calls."""
        if len(self.traces) == 1:
            yield self.traces[0], total
            return
        n_rows = [0] * len(self.traces)
        for call in calls:
            for row in call.rows:
                n_rows[self._owner[row]] += 1
        yield from zip(self.traces, _divided(total, n_rows), strict=True)


def _spent(trace: RequestTrace) -> tuple[float, ...]:
    return (
        *trace.calls.values(),
        trace.wait_s,
        trace.decode_trips + trace.prefill_trips,
        trace.cache_hits,
        trace.read_bytes,
        trace.minor_faults,
        trace.major_faults,
        trace.bytes_up,
        trace.bytes_down,
        trace.dropped_calls,
    )


def _divided(total: int, weights: Sequence[int]) -> list[int]:
    """Divide a number by weights into whole numbers that sum up to it."""
    whole, until, shares = max(1, sum(weights)), 0, []
    for weight in weights:
        before, until = until, until + weight
        shares.append(total * until // whole - total * before // whole)
    return shares


def _place_of_hash(found: TracedHash) -> tuple[int, int, int]:
    expert = -1 if found.expert is None else found.expert
    return found.position, found.layer, expert
