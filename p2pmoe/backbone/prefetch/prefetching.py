"""What a lane and its layers see of prefetching: two calls on the decode thread.

    fetch    before a pass: get what drafts foresee, in one wait, onto the step
    needed   in a layer: what of it was cold, so that hits are counted and learned from

Prefetching can cost time, never change a token and never fail a step: what did not come
is dispatched as if nothing had been foreseen.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, TypeAlias

from p2pmoe.backbone.trace import StepTrace

__all__ = ["Foreseen", "Prefetching"]

# By layer the experts that a pass will likely need and that are not at hand, the
# likeliest first (`Draft.foreseen`).
Foreseen: TypeAlias = Mapping[int, Sequence[int]]


class Prefetching(Protocol):
    """Fetches for all lanes; each method is for the decode thread of the step."""

    def fetch(
        self, foreseen: Sequence[Foreseen], step: StepTrace, deadline: float
    ) -> None:
        """Fetch what pays of what drafts foresee, onto `step.ahead`.

        Waits once at most, until `deadline` (monotonic seconds) at the latest; that
        wait is a trip of each request in the step. Raises nothing.
        """
        ...

    def needed(self, step: StepTrace, layer: int, cold: Collection[int]) -> None:
        """Take in which experts of a layer the step needs that are not resident."""
        ...
