"""A lane: the thread that runs steps over its sequences, as long as the engine lives.

    ask the schedule what to run    (under the lock; wait on it if there is nothing)
    make or grow caches             no lock: only this lane touches its sequences'
    run one step of the model       all sequences' rows together
    draw                            each sequence's next token, from its own logits
    tell                            all of it at once, by one call of `tell`

A plain function of its parts: it never awaits, and reaches the event loop through
`tell` alone. A step that fails changes nothing. If the error names rows, only their
sequences end or are parked; if it does not, all of the step's run alone next, so that
the one at fault is found and no other suffers (faults B11, B23). Sequences that were
cancelled or are overdue are gone before the next step begins (fault B20), and the last
token drawn is not run through the model: nobody would read what follows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Condition

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.backbone.generation import FinishReason, GenerationStep
from p2pmoe.backbone.pass_record import PassRecord
from p2pmoe.backbone.pass_totals import PassTotals
from p2pmoe.backbone.scheduling.drawing import draw, score_prompt
from p2pmoe.backbone.scheduling.schedule import Schedule, Share, StepPlan
from p2pmoe.backbone.scheduling.sequence import SequenceState, add_figures
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.config import MissingPolicy
from p2pmoe.errors import Cancelled, ExpertsUnavailable, RequestFailed, RowsFailed
from p2pmoe.model.experts import ExpertCaller
from p2pmoe.model.logits import Logits
from p2pmoe.model.model import Model
from p2pmoe.model.step import SequencePart
from p2pmoe.text.stopping import StopRules, cut_block

__all__ = [
    "Admitted",
    "DeadlinePassed",
    "Drawn",
    "Event",
    "Lane",
    "LaneParts",
    "Over",
    "StepFailed",
]


class DeadlinePassed(RequestFailed):
    """The request took longer than it may."""

    advice = "ask for fewer tokens, or try again when more workers are there"


@dataclass(frozen=True, slots=True)
class Admitted:
    """A sequence got its slot."""

    sequence: SequenceState


@dataclass(frozen=True, slots=True)
class Drawn:
    """A sequence's next token."""

    sequence: SequenceState
    step: GenerationStep


@dataclass(frozen=True, slots=True)
class Over:
    """A sequence is over: by a rule, or with an error."""

    sequence: SequenceState
    cause: FinishReason | Exception


@dataclass(frozen=True, slots=True)
class StepFailed:
    """What is still under way for a step is to be stopped."""

    step: StepTrace


Event = Admitted | Drawn | Over | StepFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneParts:
    """What a lane works with; `lock` guards the schedule and is told of changes.

    `experts` makes a step's caller from the step, its deadline (monotonic seconds) and
    its patience for experts that nobody holds (seconds; None: until the deadline).
    """

    number: int
    model: Model
    schedule: Schedule
    lock: Condition
    experts: Callable[[StepTrace, float, float | None], ExpertCaller]
    tell: Callable[[Sequence[Event]], None]
    monotonic: Callable[[], float]
    missing: MissingPolicy = MissingPolicy.FAIL


class Lane:
    """One decode thread; `run` is its function."""

    def __init__(self, parts: LaneParts) -> None:
        """Begin idle."""
        self._parts = parts
        self._closed = False
        self.current: StepTrace | None = None  # the step under way, for others to stop
        self.n_steps = 0
        self.n_rows = 0
        self.n_last = 0  # sequences of the latest step
        self.totals = PassTotals()

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
        events += [Over(s, _why_over(s)) for s in plan.over]
        if events:
            self._parts.tell(events)
        shares = self._with_caches(plan.shares)
        if shares:
            self._run_step(shares, plan)

    def _with_caches(self, shares: Sequence[Share]) -> list[Share]:
        """Make, copy or grow caches; a sequence for which that fails is over."""
        ready = []
        for share in shares:
            try:
                self._provide_cache(share.sequence)
            except Exception as error:  # noqa: BLE001 - MemoryError among others
                self._end([(share.sequence, error)])
            else:
                ready.append(share)
        return ready

    def _provide_cache(self, sequence: SequenceState) -> None:
        if sequence.cache is not None:
            sequence.cache.grow(sequence.room)
            return
        origin, model = sequence.origin, self._parts.model
        if origin is None:
            limit = self._parts.schedule.limits.n_context
            sequence.cache = model.new_cache(sequence.room, limit=limit)
        elif origin.is_own:
            origin.cache.truncate(origin.length)
            origin.cache.grow(sequence.room)
            sequence.cache = origin.cache
        else:
            sequence.cache = origin.cache.copy_prefix(origin.length, sequence.room)
        sequence.origin = None

    # One step.

    def _run_step(self, shares: list[Share], plan: StepPlan) -> None:
        parts = self._parts
        for share in shares:
            trace = share.sequence.trace
            trace.position = share.sequence.length
            trace.traces = share.sequence.request.traces
        record = PassRecord(
            lane=parts.number,
            keeps_layers=any(s.sequence.request.explains for s in shares),
        )
        step = StepTrace([(s.sequence.trace, s.n_rows) for s in shares], record=record)
        # Other policies answer at once for what nobody holds.
        patience = plan.patience_s if parts.missing is MissingPolicy.WAIT else None
        self.current = step
        try:
            caller = parts.experts(step, _deadline(shares), patience)
            logits = parts.model.step([_part(share) for share in shares], caller)
        except Exception as error:  # noqa: BLE001 - whatever it is, the engine goes on
            step.end()
            self.totals.add(step, ())  # its waits were paid for
            self._failed(shares, step, error)
        else:
            step.end()
            self._succeeded(shares, step, logits)
        finally:
            self.current = None

    def _succeeded(
        self, shares: list[Share], step: StepTrace, logits: Sequence[Floats]
    ) -> None:
        self.n_steps += 1
        self.n_rows += step.n_rows
        self.n_last = len(shares)
        events: list[Event] = []
        committed = [0] * len(shares)
        over: list[tuple[SequenceState, FinishReason | Exception]] = []
        for place, (share, own) in enumerate(zip(shares, logits, strict=True)):
            sequence = share.sequence
            try:
                drawn = self._advance(share, own, step, place)
            except Exception as error:  # noqa: BLE001 - a grammar's, a sampler's
                over.append((sequence, error))
                continue
            committed[place] = 0 if drawn is None else len(drawn.tokens)
            if drawn is not None and not sequence.trace.cancelled:
                events.append(Drawn(sequence, drawn))
                reason = _finish(sequence, drawn.tokens)
                if reason is not None:
                    over.append((sequence, reason))
        self.totals.add(step, committed)
        with self._parts.lock:
            self._parts.schedule.charge(self._parts.number, shares, step.n_cold)
        self._end(over, events)

    def _advance(
        self, share: Share, logits: Floats, step: StepTrace, place: int
    ) -> GenerationStep | None:
        """Take a sequence's logits; the token that follows, or None in a prompt."""
        sequence, request = share.sequence, share.sequence.request
        if request.scores_prompt and len(sequence.prompt_logprobs) < sequence.n_prompt:
            score_prompt(sequence, logits, sequence.length - share.n_rows)
        if request.explains:
            figures = step.figures(place)
            sequence.figures = add_figures(sequence.figures, figures)
            n_committed = 0 if sequence.n_pending else 1
            sequence.passes.append(replace(step.told(), n_committed=n_committed))
        if request.traces:
            sequence.hashes += step.hashes(place)
        if sequence.n_pending:
            return None
        token, told = draw(sequence, logits[-1])
        self._note_times(sequence)
        drawn = GenerationStep(
            tokens=(token,),
            logprobs=() if told is None else (told,),
            figures=sequence.figures,
            hashes=tuple(sequence.hashes),
            passes=tuple(sequence.passes),
        )
        sequence.figures, sequence.hashes, sequence.passes = None, [], []
        return drawn

    def _note_times(self, sequence: SequenceState) -> None:
        now, trace = self._parts.monotonic(), sequence.trace
        if sequence.decode_started is None:
            began = now if sequence.started is None else sequence.started
            sequence.decode_started = now
            trace.prefill_s = now - began
            trace.decoding = True
        trace.decode_s = now - sequence.decode_started

    # What went wrong.

    def _failed(self, shares: list[Share], step: StepTrace, error: Exception) -> None:
        parts = self._parts
        # Whoever cancelled has stopped what was under way.
        events: list[Event] = [] if step.cancelled else [StepFailed(step)]
        over: list[tuple[SequenceState, FinishReason | Exception]] = []
        parked: list[SequenceState] = []
        at_fault = _at_fault(shares, step, error)
        now = parts.monotonic()
        with parts.lock:
            for share in shares:
                sequence = share.sequence
                if not at_fault:
                    sequence.is_suspect = True
                elif sequence not in at_fault:
                    sequence.parked_until = None  # it does not lack anything
                elif sequence.trace.cancelled:
                    continue  # the next step begins without it
                elif _deadline(shares) <= now < sequence.deadline:
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


def _part(share: Share) -> SequencePart:
    sequence = share.sequence
    if sequence.cache is None:
        raise ValueError("a sequence without a cache is in a step")
    first = sequence.length
    tokens = sequence.tokens[first : first + share.n_rows]
    wanted = Logits.LAST if share.n_rows == sequence.n_pending else Logits.NONE
    scored = len(sequence.prompt_logprobs)
    if sequence.request.scores_prompt and scored < sequence.n_prompt:
        wanted = Logits.ALL
    return SequencePart(tokens, sequence.cache, wanted)


def _deadline(shares: Sequence[Share]) -> float:
    return min(share.sequence.deadline for share in shares)


def _finish(sequence: SequenceState, tokens: Sequence[int]) -> FinishReason | None:
    request = sequence.request
    rules = StopRules(max_tokens=request.max_tokens, stop_ids=request.stop_ids)
    return cut_block(tokens, sequence.n_drawn - len(tokens), rules).finish


def _at_fault(
    shares: Sequence[Share], step: StepTrace, error: Exception
) -> list[SequenceState]:
    """Return whose rows an error names; none if it cannot be told."""
    if len(shares) == 1:
        return [shares[0].sequence]
    if isinstance(error, Cancelled):
        return [s.sequence for s in shares if s.sequence.trace.cancelled]
    if isinstance(error, RowsFailed):
        owners = {int(step.owners[row]) for row in error.rows}
        return [shares[owner].sequence for owner in sorted(owners)]
    return []


def _why_over(sequence: SequenceState) -> Exception:
    if sequence.trace.cancelled:
        return Cancelled("the request was cancelled")
    if sequence.parked_by is not None:
        return sequence.parked_by
    return DeadlinePassed(
        f"the request's deadline passed after {sequence.n_drawn} tokens"
    )
