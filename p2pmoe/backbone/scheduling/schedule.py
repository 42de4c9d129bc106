"""The state of all sequences of an engine, and the decision what each lane runs next.

    submit      into the queue, or refused
    next_step   over with what is cancelled or overdue; slots filled from the queue;
                rows shared out; room granted, the youngest preempted if need be
    charge, park, leave
                after the step: its rows counted, what is to wait or is over

A sequence holds a slot of one lane from its admission to its end; a preempted one
gives it up and goes to the head of the queue with all its tokens as its prompt, so that
its output stays the same. It is admitted only where its tokens and a granule of its own
fit, and one for each running sequence that may still grow: else preemptions would chase
each other.

No threads, no clock, no model: callers hold a lock and pass the time. `version` changes
when another lane may have something to do.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from p2pmoe.backbone.generation import FailureKind, GenerationFailed
from p2pmoe.backbone.scheduling.cold_bound import ColdBound
from p2pmoe.backbone.scheduling.composition import Demand, share_rows
from p2pmoe.backbone.scheduling.departures import Departures
from p2pmoe.backbone.scheduling.fair_queue import FairQueue
from p2pmoe.backbone.scheduling.kv_pool import KvPool
from p2pmoe.backbone.scheduling.reuse import (
    Opening,
    begin_from_kept,
    begin_from_others,
    keep_of,
    tell_others,
    waits_for_another,
)
from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.errors import RequestFailed
from p2pmoe.model.errors import CacheFull

__all__ = ["GRANULE", "Schedule", "ScheduleLimits", "Share", "StepPlan"]

GRANULE = 128  # positions that a sequence gets at least at a time
_PAUSE_S = 0.02  # between tries that fail without any wait
_SHORT = 0.1  # of the patience: a holder that is only busy answers within it
_GROWTH = 4  # or a fourth of what it has, which keeps copying linear


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleLimits:
    """The bounds; `kv_bytes` of memory for keys and values, `token_bytes` a position.

    `n_context` positions are the most that a sequence may have.
    """

    kv_bytes: int
    token_bytes: int
    n_context: int
    n_lanes: int = 1
    max_batch: int = 16  # slots of a lane
    chunk_tokens: int = 64  # rows of prompts in a step
    prefill_steps: int = 1  # steps of prompts that may be under way at once
    max_waiting: int = 64
    max_cold_experts: int | None = None
    park_after_s: float = 1.0
    park_retry_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Share:
    """A sequence in a step and how many of its pending tokens are run."""

    sequence: SequenceState
    n_rows: int


@dataclass(slots=True, kw_only=True)
class StepPlan:
    """What a lane does next; without shares it waits, at most until `wake_at`."""

    shares: list[Share] = field(default_factory=list)
    admitted: list[SequenceState] = field(default_factory=list)
    over: list[SequenceState] = field(default_factory=list)  # cancelled or overdue
    patience_s: float = 0.0  # for experts that nobody holds
    wake_at: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do or to tell."""
        return not (self.shares or self.admitted or self.over)


class Schedule:
    """All sequences of an engine; see the module."""

    def __init__(self, limits: ScheduleLimits) -> None:
        """Begin with all slots free."""
        self.limits = limits
        self.pool = KvPool(limits.kv_bytes, limits.token_bytes)
        self.queue = FairQueue(limits.max_waiting)
        self.lanes: list[list[SequenceState]] = [[] for _ in range(limits.n_lanes)]
        most = limits.max_batch + limits.chunk_tokens
        self.cold = [
            ColdBound(limits.max_cold_experts, most) for _ in range(limits.n_lanes)
        ]
        self.departures = Departures()
        self.version = 0
        self.n_preemptions = 0
        self.n_prefix_hits = 0
        self.n_reused = 0  # positions
        self.n_refused = 0
        self._n_submitted = 0
        self._n_slots = limits.n_lanes * limits.max_batch
        self._retried = [False] * limits.n_lanes  # in the lane's last step

    # In and out.

    def submit(self, sequence: SequenceState) -> SequenceState | None:
        """Put a sequence into the queue; return one that had to leave it for this.

        Raises:
            RequestFailed: it can never be run here.
            GenerationFailed: OVERLOADED; too many wait.
        """
        self._refuse_what_cannot_run(sequence)
        sequence.number = self._n_submitted
        self._n_submitted += 1
        leaving = self.queue.push(sequence, self._n_slots - self.n_running)
        if leaving is sequence:
            raise self.refuse()
        self.version += 1
        return leaving

    def refuse(self) -> GenerationFailed:
        """Refuse a request that finds no place in the queue: what it is told."""
        self.n_refused += 1
        n = len(self.queue)
        return GenerationFailed(
            FailureKind.OVERLOADED,
            f"{n} requests wait already",
            retry_s=self.departures.retry_s(n),
        )

    def withdraw(self, sequence: SequenceState) -> bool:
        """Take a sequence out of the queue; False if it has a slot or is over."""
        if not self.queue.remove(sequence):
            return False
        self.version += 1
        return True

    @property
    def n_running(self) -> int:
        """Sequences that hold a slot."""
        return sum(len(own) for own in self.lanes)

    def sequences(self) -> Iterator[SequenceState]:
        """Iterate over all that wait or run."""
        yield from self.queue
        for own in self.lanes:
            yield from own

    def _refuse_what_cannot_run(self, sequence: SequenceState) -> None:
        limits, n = self.limits, sequence.limit
        if sequence.n_prompt == 0:
            raise RequestFailed("the prompt is empty")
        if n > limits.n_context:
            raise CacheFull(
                f"{sequence.n_prompt} tokens and {sequence.request.max_tokens} more do "
                f"not fit the context of {limits.n_context}"
            )
        if not self.pool.could_hold(n):
            raise CacheFull(
                f"{n} tokens take {n * limits.token_bytes} bytes of keys and values, "
                f"and there are {limits.kv_bytes}"
            )

    # The next step.

    def next_step(self, lane: int, now: float) -> StepPlan:
        """Decide what a lane does next; it does so before it asks again."""
        plan = StepPlan()
        self._end_what_is_over(lane, now, plan)
        for sequence in [s for s in self.lanes[lane] if s.gives_way]:
            self._preempt(sequence)
        self._admit(lane, now, plan)
        ready = [s for s in self.lanes[lane] if s.parked_until is None]
        parked = [s for s in self.lanes[lane] if s.parked_until is not None]
        parked.sort(key=lambda s: s.parked_until or 0.0)
        due = [s for s in parked if not (s.parked_until or 0.0) > now]
        # With others to hold up while something is known to be missing, wait less.
        plan.patience_s = self.limits.park_after_s
        if parked and ready:
            plan.patience_s *= _SHORT
        suspects = [s for s in ready if s.is_suspect]
        self._retried[lane] = bool(due) and not (ready and self._retried[lane])
        if self._retried[lane]:
            self._share(lane, due, plan)
        elif suspects:
            self._share(lane, suspects[:1], plan)
        elif ready:
            begin = [s for s in ready if not waits_for_another(s, ready)]
            self._share(lane, begin, plan)
        plan.wake_at = parked[0].parked_until if parked else None
        return plan

    def _end_what_is_over(self, lane: int, now: float, plan: StepPlan) -> None:
        for sequence in list(self.lanes[lane]):
            if sequence.trace.cancelled or not now < sequence.deadline:
                self.leave(sequence, now, keeps=sequence.trace.cancelled)
                plan.over.append(sequence)
        for sequence in list(self.queue):
            if sequence.trace.cancelled or not now < sequence.deadline:
                self.withdraw(sequence)
                plan.over.append(sequence)

    def _admit(self, lane: int, now: float, plan: StepPlan) -> None:
        own = self.lanes[lane]
        while len(own) < self.limits.max_batch and self._may_take(lane):
            sequence = self.queue.peek()
            if sequence is None or not self._grant_start(sequence):
                return
            self.queue.remove(sequence)
            self.queue.runs(sequence.request.client)
            if sequence.origin is None:
                begin_from_others(self.pool, sequence, own)
                sequence.n_hint = sequence.length
                self._look_again(sequence)
            own.append(sequence)
            own.sort(key=lambda s: s.number)
            self.version += 1
            if sequence.started is None:
                sequence.started = now
                sequence.trace.queued_s = now - sequence.submitted
                plan.admitted.append(sequence)

    def _may_take(self, lane: int) -> bool:
        """Leave it to a lane that has clearly less to do, an idle one above all."""
        own = len(self.lanes[lane])
        least = min(len(other) for other in self.lanes)
        return own == least or (least > 0 and own <= least + 1)

    def _grant_start(self, sequence: SequenceState) -> bool:
        n = len(sequence.tokens)
        room = min(sequence.limit, n + GRANULE)
        running = [s for own in self.lanes for s in own]
        spare = sum(min(GRANULE, max(0, s.limit - s.room)) for s in running)
        return begin_from_kept(
            self.pool,
            sequence,
            Opening(room=room, spare=spare, others=tuple(self.sequences())),
        )

    # Rows and their room.

    def _share(self, lane: int, ready: list[SequenceState], plan: StepPlan) -> None:
        demands = [Demand(s.n_expected, s.n_waited) for s in ready]
        if self._may_overlap(ready):
            rows = [demand.n_pending for demand in demands]
        else:
            rows = share_rows(
                demands,
                chunk_rows=self.limits.chunk_tokens,
                max_rows=self.cold[lane].rows,
            )
        for sequence, n_rows in zip(ready, rows, strict=True):
            if sequence not in self.lanes[lane]:
                continue  # preempted for one before it
            own = self._first_rows(sequence, n_rows, lane)
            if own and self._have_room(sequence, own, lane):
                self._note_reuse(sequence)
                plan.shares.append(Share(sequence, own))
                sequence.n_waited = 0
            else:
                sequence.n_waited += 1
                self._look_again(sequence)
        plan.shares = [s for s in plan.shares if s.sequence in self.lanes[lane]]

    def _may_overlap(self, ready: list[SequenceState]) -> bool:
        """Whether whole prompts may be run, in chunks that are under way together.

        Not while any sequence decodes, was in a step that failed, is traced, or wants
        all logits, whose room waiting chunks take; nor where cold experts are bounded.
        """
        limits = self.limits
        if limits.prefill_steps == 1 or limits.max_cold_experts is not None:
            return False
        return all(
            s.n_expected > 1
            and not (s.is_suspect or s.request.traces or s.request.scores_prompt)
            and s.parked_by is None
            for s in ready
        )

    def _first_rows(self, sequence: SequenceState, n_rows: int, lane: int) -> int:
        """Let a sequence that gets its first rows begin with what others have of it."""
        if n_rows and sequence.cache is None and sequence.origin is None:
            begin_from_others(self.pool, sequence, self.lanes[lane])
        return min(n_rows, sequence.n_pending)

    def _look_again(self, sequence: SequenceState) -> None:
        """Forget a copy that is not yet made: there may be more to copy next time."""
        if sequence.origin is not None and not sequence.origin.is_own:
            sequence.origin = None

    def _note_reuse(self, sequence: SequenceState) -> None:
        if sequence.cache is None and sequence.origin is not None:
            self.n_prefix_hits += 1
            self.n_reused += sequence.origin.length
            if sequence.n_drawn == 0:
                sequence.n_cached = sequence.origin.length

    def _have_room(self, sequence: SequenceState, n_rows: int, lane: int) -> bool:
        """Grant room for the rows; False if the sequence cannot run in this step."""
        needed = sequence.length + n_rows
        if needed <= sequence.room:
            return True
        step = max(GRANULE, sequence.room // _GROWTH)
        wish = min(sequence.limit, max(needed, sequence.room + step))
        while True:
            for room in (wish, needed):
                if self.pool.grant(room - sequence.room):
                    sequence.room = room
                    return True
            youngest = max(
                (s for own in self.lanes for s in own), key=lambda s: s.number
            )
            if youngest in self.lanes[lane]:
                self._preempt(youngest)
                if youngest is sequence:
                    return False
            else:  # it may be in a step: its own lane is to do it
                if not youngest.gives_way:
                    youngest.gives_way = True
                    self.version += 1
                return False

    def room_for_drafts(self, sequence: SequenceState, n: int) -> int:
        """Grant room for up to `n` drafts behind the next token; return for how many.

        Only what is free is taken: neither a sequence nor a kept prefix gives way.
        """
        next_one = sequence.length + 1
        needed = min(sequence.limit, next_one + n)
        step = max(GRANULE, sequence.room // _GROWTH)
        for room in (min(sequence.limit, sequence.room + step), needed):
            more = room - sequence.room
            if sequence.room < needed <= room and self.pool.grant_free(more):
                sequence.room = room
        return max(0, min(n, sequence.room - next_one))

    def _preempt(self, sequence: SequenceState) -> None:
        self._free(sequence)
        sequence.drop_cache()
        sequence.parked_until = None
        sequence.is_suspect = False
        self.queue.push_first(sequence)
        self.n_preemptions += 1

    # After a step.

    def charge(self, lane: int, shares: list[Share], n_rows: int, n_cold: int) -> None:
        """Count a step of `n_rows` that succeeded; `shares` are the rows that last."""
        for share in shares:
            self.queue.charge(share.sequence.request.client, share.n_rows)
            share.sequence.is_suspect = False
            share.sequence.parked_until = share.sequence.parked_by = None
            if share.sequence.n_drawn == 1:
                tell_others(share.sequence, self.lanes[lane])
        self.cold[lane].observe(n_rows, n_cold)

    def park(
        self, lane: int, sequences: list[SequenceState], error: Exception, now: float
    ) -> None:
        """Leave sequences out for a while: nobody holds an expert that they need.

        With no other to run beside them, their lane tries again nearly at once.
        """
        for sequence in sequences:
            sequence.parked_until, sequence.parked_by = now + _PAUSE_S, error
            sequence.is_suspect = False
        if any(own.parked_until is None for own in self.lanes[lane]):
            for sequence in sequences:
                sequence.parked_until = now + self.limits.park_retry_s

    def leave(self, sequence: SequenceState, now: float, *, keeps: bool) -> None:
        """End a running sequence; `keeps` what it computed, if that is complete."""
        self._free(sequence)
        kept = keep_of(sequence) if keeps else None
        sequence.drop_cache()
        if kept is not None:
            self.pool.keep(kept)
        self.departures.left(now)

    def _free(self, sequence: SequenceState) -> None:
        for own in self.lanes:
            if sequence in own:
                own.remove(sequence)
        self.pool.release(sequence.room)
        self.queue.stops(sequence.request.client)
        self.version += 1
