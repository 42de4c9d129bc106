"""A small client of the backbone's API, for the command line and the demo."""

from p2pmoe.client.completions import (
    ApiError,
    Completion,
    complete,
    complete_chat,
    served_model,
)
from p2pmoe.client.events import StreamEnd, StreamProblem, TextDelta, parse_event
from p2pmoe.client.step_costs import (
    StepCost,
    read_passes,
    read_step_costs,
    total_cost,
)

__all__ = [
    "ApiError",
    "Completion",
    "StepCost",
    "StreamEnd",
    "StreamProblem",
    "TextDelta",
    "complete",
    "complete_chat",
    "parse_event",
    "read_passes",
    "read_step_costs",
    "served_model",
    "total_cost",
]
