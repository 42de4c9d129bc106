"""Lanes without threads: a test asks for each step, and sees what is told."""

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Condition

from p2pmoe.backbone.generation import FinishReason, GenerationRequest, GenerationStep
from p2pmoe.backbone.lane import Lane, LaneParts
from p2pmoe.backbone.lane_events import Admitted, Drawn, Event, Over
from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.backbone.scattered import Network, ScatteredExperts
from p2pmoe.backbone.scheduling.schedule import Schedule, ScheduleLimits
from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.backbone.speculation.speculation import SpeculationMaker
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.config import MissingPolicy
from p2pmoe.model.experts import ExpertCaller
from p2pmoe.model.model import Model
from p2pmoe.model.sampler import SamplingSettings

__all__ = ["LaneRig", "a_request", "decode_alone", "limits_of"]


def limits_of(**changes: object) -> ScheduleLimits:
    """Return limits that bound nothing a test does not change."""
    values: dict[str, object] = {
        "kv_bytes": 1 << 30,
        "token_bytes": 10,
        "n_context": 4096,
    }
    return ScheduleLimits(**(values | changes))


def a_request(
    prompt: Sequence[int], max_tokens: int = 1, **changes: object
) -> GenerationRequest:
    """Return a greedy request."""
    values: dict[str, object] = {
        "prompt_ids": tuple(prompt),
        "max_tokens": max_tokens,
        "sampling": SamplingSettings(temperature=0.0),
    }
    return GenerationRequest(**(values | changes))


def decode_alone(
    local: LocalSide,
    request: GenerationRequest,
    network: Network | None = None,
    speculation: SpeculationMaker | None = None,
) -> tuple[list[int], RequestTrace]:
    """Run one request by itself on this thread; its tokens and what it cost.

    Raises whatever ended it, if that was no rule.
    """
    description = local.model.description
    rig = LaneRig(
        local.model,
        limits_of(
            n_context=description.n_context,
            token_bytes=description.kv_bytes_per_token,
        ),
        clock=time.monotonic,
        now=time.monotonic(),
        deadline_s=math.inf,
        caller=functools.partial(ScatteredExperts, local.places(network)),
        speculation=speculation,
    )
    sequence = rig.submit(request)
    rig.run()
    cause = rig.cause(sequence)
    if isinstance(cause, Exception):
        raise cause
    return rig.tokens(sequence), sequence.trace


@dataclass
class LaneRig:
    """A schedule and its lanes over a model; time stands still but for the test."""

    model: Model
    limits: ScheduleLimits = field(default_factory=limits_of)
    missing: MissingPolicy = MissingPolicy.FAIL
    now: float = 1000.0
    clock: Callable[[], float] | None = None  # None: `now`, which the test moves
    deadline_s: float = 600.0
    events: list[Event] = field(default_factory=list)
    patience: list[float | None] = field(default_factory=list)
    experts: Callable[[StepTrace], ExpertCaller | None] = lambda step: None
    caller: Callable[[StepTrace, float, float | None], ExpertCaller] | None = None
    speculation: SpeculationMaker | None = None

    def __post_init__(self) -> None:
        self.schedule = Schedule(self.limits)
        self._lock = Condition()
        self.lanes = [
            Lane(
                LaneParts(
                    number=number,
                    model=self.model,
                    schedule=self.schedule,
                    lock=self._lock,
                    experts=self._experts,
                    tell=self.events.extend,
                    monotonic=self.clock or (lambda: self.now),
                    missing=self.missing,
                    speculation=self.speculation and self.speculation(),
                )
            )
            for number in range(self.limits.n_lanes)
        ]

    def _experts(
        self, step: StepTrace, deadline: float, patience_s: float | None
    ) -> ExpertCaller | None:
        self.patience.append(patience_s)
        if self.caller is not None:
            return self.caller(step, deadline, patience_s)
        return self.experts(step)

    def sequence(self, request: GenerationRequest) -> SequenceState:
        """Return a sequence that is not submitted yet."""
        return SequenceState(
            request=request,
            trace=RequestTrace(),
            submitted=self.now,
            deadline=self.now + self.deadline_s,
        )

    def submit(self, request: GenerationRequest) -> SequenceState:
        """Submit a request; errors as the schedule raises them."""
        sequence = self.sequence(request)
        leaving = self.schedule.submit(sequence)
        if leaving is not None:
            self.events.append(Over(leaving, self.schedule.refuse()))
        return sequence

    def step(self, lane: int = 0) -> bool:
        """Let a lane do what comes next; False if there is nothing."""
        own = self.lanes[lane]
        with self._lock:
            plan = own.plan()
        if plan.is_empty:
            return False
        own.take(plan)
        return True

    def run(self, most: int = 100_000) -> None:
        """Let all lanes run until there is nothing to do."""
        for _ in range(most):
            busy = [self.step(lane) for lane in range(len(self.lanes))]
            if not any(busy):
                return
        raise AssertionError(f"still something to do after {most} rounds")

    # What was told.

    def steps(self, sequence: SequenceState) -> list[GenerationStep]:
        """Return what a sequence was told."""
        return [
            event.step
            for event in self.events
            if isinstance(event, Drawn) and event.sequence is sequence
        ]

    def tokens(self, sequence: SequenceState) -> list[int]:
        """Return the tokens that a sequence got."""
        return [token for step in self.steps(sequence) for token in step.tokens]

    def cause(self, sequence: SequenceState) -> FinishReason | Exception | None:
        """Return how a sequence ended; None if it has not."""
        causes = [
            event.cause
            for event in self.events
            if isinstance(event, Over) and event.sequence is sequence
        ]
        assert len(causes) <= 1, "it ended twice"
        return causes[0] if causes else None

    def admitted(self) -> list[SequenceState]:
        """Return those that got a slot, in order."""
        return [e.sequence for e in self.events if isinstance(e, Admitted)]
