"""What a lane tells the engine: values, handed over once a step."""

from dataclasses import dataclass

from p2pmoe.backbone.generation import FinishReason, GenerationStep
from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.errors import RequestFailed

__all__ = ["Admitted", "DeadlinePassed", "Drawn", "Event", "Over", "StepFailed"]


class DeadlinePassed(RequestFailed):
    """The request took longer than it may."""

    advice = "ask for fewer tokens, or try again when more workers are there"


@dataclass(frozen=True, slots=True)
class Admitted:
    """A sequence got its slot."""

    sequence: SequenceState


@dataclass(frozen=True, slots=True)
class Drawn:
    """A sequence's next tokens."""

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
