"""A lane: the thread that runs steps over its sequences, as long as the engine lives.

    ask the schedule what to run    (under the lock; wait on it if there is nothing)
    choose                          who drafts, and how much, for those that decode
    make or grow caches             no lock: only this lane touches its sequences'
    draft                           tokens that may follow, as far as there is room
    run one step of the model       all sequences' rows together, drafts behind theirs
    verify                          draw from each sequence's own logits, row by row
    tell                            all of it at once, by one call of `tell`

A plain function of its parts: it never awaits, and reaches the event loop through
`tell` alone. A step that fails changes nothing. If the error names rows, only their
sequences end or are parked; if it does not, all of the step's run alone next, so that
the one at fault is found and no other suffers (faults B11, B23). Sequences that were
cancelled or are overdue are gone before the next step begins (fault B20), and the last
token drawn is not run through the model: nobody would read what follows.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Condition

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.backbone.generation import FinishReason
from p2pmoe.backbone.lane_chunks import ChunkHooks, LaneChunks
from p2pmoe.backbone.lane_events import (
    Admitted,
    Drawn,
    Event,
    Over,
    StepFailed,
)
from p2pmoe.backbone.lane_rows import (
    at_fault,
    block_of,
    deadline_of,
    decodes,
    drafts_of,
    finish_of,
    part_of,
    provide_cache,
    why_over,
)
from p2pmoe.backbone.pass_record import PassRecord
from p2pmoe.backbone.pass_totals import PassTotals
from p2pmoe.backbone.scheduling.drawing import score_prompt
from p2pmoe.backbone.scheduling.schedule import Schedule, Share, StepPlan
from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.backbone.speculation.drafted import Round
from p2pmoe.backbone.speculation.in_flight import run_walk
from p2pmoe.backbone.speculation.lane_drafts import LaneDrafts
from p2pmoe.backbone.speculation.speculation import Speculation
from p2pmoe.backbone.speculation.verify import NOTHING, Verified, verify
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.config import MissingPolicy
from p2pmoe.errors import ExpertsUnavailable
from p2pmoe.model.experts import ExpertCaller
from p2pmoe.model.model import Model

__all__ = ["Lane", "LaneParts"]

log = logging.getLogger("p2pmoe.engine")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneParts:
    """What a lane works with; `lock` guards the schedule and is told of changes.

    `experts` makes a step's caller from the step, its deadline (monotonic seconds) and
    its patience for experts that nobody holds (seconds; None: until the deadline).
    Without `speculation` nothing is drafted.
    """

    number: int
    model: Model
    schedule: Schedule
    lock: Condition
    experts: Callable[[StepTrace, float, float | None], ExpertCaller]
    tell: Callable[[Sequence[Event]], None]
    monotonic: Callable[[], float]
    missing: MissingPolicy = MissingPolicy.FAIL
    speculation: Speculation | None = None


class Lane:
    """One decode thread; `run` is its function."""

    def __init__(self, parts: LaneParts) -> None:
        """Begin idle."""
        self._parts = parts
        self._closed = False
        self.under_way: tuple[StepTrace, ...] = ()  # for others to stop
        self.n_steps = 0
        self.n_rows = 0
        self.n_last = 0  # sequences of the latest step
        self.totals = PassTotals()
        self.speculation = parts.speculation
        self._drafts = None
        if parts.speculation is not None:
            self._drafts = LaneDrafts(parts.speculation, parts.model, parts.monotonic)
        hooks = ChunkHooks(
            begin=lambda shares: self._begin(shares, None),
            succeeded=self._succeeded,
            failed=self._failed,
            under_way=lambda steps: setattr(self, "under_way", steps),
            tell=parts.tell,
            is_closed=lambda: self._closed,
        )
        self._chunks = LaneChunks(parts.model, parts.experts, parts.schedule, hooks)

    def close(self) -> None:
        """End after the step under way; the caller holds the lock and notifies."""
        self._closed = True

    def run(self) -> None:
        """Run steps until `close`; blocks, and sleeps while there is nothing to do."""
        while (plan := self._next()) is not None:
            self.take(plan)

    def _next(self) -> StepPlan | None:
        parts = self._parts
        with parts.lock:
            while not self._closed:
                plan = self.plan()
                if not plan.is_empty:
                    return plan
                timeout = None
                if plan.wake_at is not None:
                    timeout = max(0.0, plan.wake_at - parts.monotonic())
                parts.lock.wait(timeout)
        return None

    def plan(self) -> StepPlan:
        """Ask what comes next and wake the other lanes; the caller holds the lock."""
        parts = self._parts
        version = parts.schedule.version
        plan = parts.schedule.next_step(parts.number, parts.monotonic())
        if parts.schedule.version != version:
            parts.lock.notify_all()
        return plan

    def take(self, plan: StepPlan) -> None:
        """Do what was decided, and tell what came of it."""
        events: list[Event] = [Admitted(s) for s in plan.admitted]
        events += [Over(s, why_over(s)) for s in plan.over]
        if events:
            self._parts.tell(events)
        round_ = self._choose(plan.shares)
        shares = self._with_caches(plan.shares)
        if shares:
            self._run_step(shares, plan, round_)

    def _with_caches(self, shares: Sequence[Share]) -> list[Share]:
        """Make, copy or grow caches; a sequence for which that fails is over."""
        ready = []
        model, limit = self._parts.model, self._parts.schedule.limits.n_context
        for share in shares:
            try:
                provide_cache(share.sequence, model, limit)
            except Exception as error:  # noqa: BLE001 - MemoryError among others
                self._end([(share.sequence, error)])
            else:
                ready.append(share)
        return ready

    # One step.

    def _choose(self, shares: Sequence[Share]) -> Round | None:
        """Choose how the sequences that decode draft, and grant room for it."""
        parts, drafts = self._parts, self._drafts
        if drafts is None:
            return None
        drafts.safely(lambda: drafts.forget_all_but(parts.schedule.lanes[parts.number]))
        decoding = [share.sequence for share in shares if decodes(share)]
        if not decoding:
            return None
        n_rows = sum(share.n_rows for share in shares)
        n_free = parts.schedule.cold[parts.number].rows - n_rows
        n_other = n_rows - len(decoding)
        round_ = drafts.safely(lambda: drafts.choose(decoding, max(0, n_free), n_other))
        if round_ is None:
            return None
        with parts.lock:
            for sequence, n in round_.wanted.items():
                round_.wanted[sequence] = parts.schedule.room_for_drafts(sequence, n)
        return round_

    def _run_step(
        self, shares: list[Share], plan: StepPlan, round_: Round | None
    ) -> None:
        # Other policies answer at once for what nobody holds.
        waits = self._parts.missing is MissingPolicy.WAIT
        patience = plan.patience_s if waits else None
        chunks = self._chunks.cut(shares)
        if len(chunks) > 1:
            self._chunks.run(chunks, patience)
            return
        drafts = self._drafts
        if drafts is not None and round_ is not None:
            if drafts.safely(lambda: drafts.prepare(round_)) is None:
                round_.give_up()
            if round_.drafts:
                if self._run_pass(shares, patience, round_):
                    return
                # A draft may need what plain decoding does not.
                drafts.failed(round_)
        self._run_pass(shares, patience, round_)

    def _run_pass(
        self, shares: list[Share], patience: float | None, round_: Round | None
    ) -> bool:
        """Run the shares once; False if it failed and is to run without drafts."""
        began = self._parts.monotonic()
        step = self._begin(shares, round_)
        self.under_way = (step,)
        try:
            logits = self._logits(shares, step, patience, round_)
        except Exception as error:  # noqa: BLE001 - whatever it is, the engine goes on
            step.end()
            self.totals.add(step, ())  # its waits were paid for
            if round_ is not None and round_.drafts and not step.cancelled:
                log.info("a pass runs again without its drafts: %s", error)
                step.record.failure = "run again without drafts"
                for sequence in (share.sequence for share in shares):
                    if sequence.request.explains:
                        sequence.passes.append(step.told())
                self._parts.tell([StepFailed(step)])
                return False
            self._failed(shares, step, error)
        else:
            step.end()
            verified = self._succeeded(shares, step, logits, round_)
            if self._drafts is not None and round_ is not None:
                pass_s = self._parts.monotonic() - began
                drafts = self._drafts
                drafts.safely(lambda: drafts.end(round_, verified, step, pass_s))
        finally:
            self.under_way = ()
        return True

    def _begin(self, shares: Sequence[Share], round_: Round | None) -> StepTrace:
        for share in shares:
            trace = share.sequence.trace
            trace.position = share.sequence.length
            trace.traces = share.sequence.request.traces
        record = PassRecord(
            lane=self._parts.number,
            keeps_layers=any(s.sequence.request.explains for s in shares),
        )
        if round_ is not None:
            source = round_.plan.source if round_.drafts else None
            record.planned(round_.plan.why, source or "", round_.draft_s)
        return StepTrace(
            [(s.sequence.trace, s.n_rows + len(drafts_of(s, round_))) for s in shares],
            record=record,
        )

    def _logits(
        self,
        shares: Sequence[Share],
        step: StepTrace,
        patience: float | None,
        round_: Round | None,
    ) -> Sequence[Floats]:
        parts, drafts = self._parts, self._drafts
        deadline = deadline_of(shares)
        caller = parts.experts(step, deadline, patience)
        rows = [part_of(share, drafts_of(share, round_)) for share in shares]
        if drafts is None or round_ is None:
            return parts.model.step(rows, caller)
        drafts.prefetch(round_, step, deadline)
        in_flight = drafts.begin_in_flight(round_)
        if in_flight is None:
            return parts.model.step(rows, caller)
        return run_walk(parts.model.walk(rows, caller), in_flight, step.record)

    def _succeeded(
        self,
        shares: list[Share],
        step: StepTrace,
        logits: Sequence[Floats],
        round_: Round | None = None,
    ) -> dict[SequenceState, Verified]:
        self.n_steps += 1
        self.n_rows += step.n_rows
        self.n_last = len(shares)
        events: list[Event] = []
        over: list[tuple[SequenceState, FinishReason | Exception]] = []
        found: dict[SequenceState, Verified] = {}
        now = self._parts.monotonic()
        for place, (share, own) in enumerate(zip(shares, logits, strict=True)):
            sequence = share.sequence
            try:
                verified = self._advance(share, own, drafts_of(share, round_))
                told = block_of(sequence, verified, (step, place), now)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is its own
                over.append((sequence, error))
                continue
            found[sequence] = verified
            if told is not None and not sequence.trace.cancelled:
                events.append(Drawn(sequence, told))
                reason = finish_of(sequence, told.tokens)
                if reason is not None:
                    over.append((sequence, reason))
            if verified.error is not None:
                over.append((sequence, verified.error))
        own_parts = [found.get(share.sequence, NOTHING) for share in shares]
        self.totals.add(step, [len(own.tokens) for own in own_parts])
        self.totals.rejected(
            step, [own.n_drafted - own.n_accepted for own in own_parts]
        )
        with self._parts.lock:
            kept = [
                Share(share.sequence, share.n_rows + own.n_accepted)
                for share, own in zip(shares, own_parts, strict=True)
            ]
            schedule = self._parts.schedule
            schedule.charge(self._parts.number, kept, step.n_rows, step.n_cold)
        self._end(over, events)
        return found

    def _advance(self, share: Share, logits: Floats, drafts: Sequence[int]) -> Verified:
        """Take a sequence's logits; the tokens that follow, none in a prompt."""
        sequence, request = share.sequence, share.sequence.request
        if request.scores_prompt and len(sequence.prompt_logprobs) < sequence.n_prompt:
            score_prompt(sequence, logits, sequence.length - share.n_rows)
        if sequence.n_pending > 0:
            return NOTHING
        verified = verify(sequence, logits, drafts)
        sequence.n_drafted += verified.n_drafted
        sequence.n_accepted += verified.n_accepted
        return verified

    # What went wrong.

    def _failed(self, shares: list[Share], step: StepTrace, error: Exception) -> None:
        parts = self._parts
        # Whoever cancelled has stopped what was under way.
        events: list[Event] = [] if step.cancelled else [StepFailed(step)]
        over: list[tuple[SequenceState, FinishReason | Exception]] = []
        parked: list[SequenceState] = []
        faulty = at_fault(shares, step, error)
        now = parts.monotonic()
        with parts.lock:
            for share in shares:
                sequence = share.sequence
                if not faulty:
                    sequence.is_suspect = True
                elif sequence not in faulty:
                    sequence.parked_until = None  # it does not lack anything
                elif sequence.trace.cancelled:
                    continue  # the next step begins without it
                elif deadline_of(shares) <= now < sequence.deadline:
                    continue  # the time was over for another one
                elif self._waits_for(sequence, error, now):
                    parked.append(sequence)
                else:
                    over.append((sequence, error))
            parts.schedule.park(parts.number, parked, error, now)
        self._end(over, events)

    def _waits_for(self, sequence: SequenceState, error: Exception, now: float) -> bool:
        return (
            isinstance(error, ExpertsUnavailable)
            and self._parts.missing is MissingPolicy.WAIT
            and now < sequence.deadline
        )

    def _end(
        self,
        over: Sequence[tuple[SequenceState, FinishReason | Exception]],
        events: Sequence[Event] = (),
    ) -> None:
        """Free what ended sequences hold, then tell everything at once."""
        parts = self._parts
        if over:
            now = parts.monotonic()
            with parts.lock:
                for sequence, cause in over:
                    keeps = isinstance(cause, FinishReason)
                    parts.schedule.leave(sequence, now, keeps=keeps)
                parts.lock.notify_all()
        told = [*events, *(Over(sequence, cause) for sequence, cause in over)]
        if told:
            parts.tell(told)
