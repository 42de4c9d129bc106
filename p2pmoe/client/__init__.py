"""A small client of the backbone's API, for the command line and the demo."""

from p2pmoe.client.completions import ApiError, Completion, complete, complete_chat
from p2pmoe.client.events import StreamEnd, StreamProblem, TextDelta, parse_event

__all__ = [
    "ApiError",
    "Completion",
    "StreamEnd",
    "StreamProblem",
    "TextDelta",
    "complete",
    "complete_chat",
    "parse_event",
]
