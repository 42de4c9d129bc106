"""What a lane's passes came to since it began: A, g and what a crossing takes.

A, the round trips per committed token, is `n_trips` over `n_committed`; g, the tokens
that a pass gives a sequence, `n_committed` over `n_sequences`; a crossing takes
`crossing_s` over `n_trips`, of which `wait_s` was waited for. Only passes count in
which a sequence decoded, and of their tokens only those of such sequences: a prompt has
no choice about its waits. One writer, the lane's thread; a reader may be a pass late.
"""

from collections.abc import Sequence

from p2pmoe.backbone.trace import StepTrace

__all__ = ["PassTotals"]


class PassTotals:
    """Sums over a lane's decode passes."""

    __slots__ = (
        "crossing_s",
        "n_committed",
        "n_passes",
        "n_rejected_servings",
        "n_sequences",
        "n_trips",
        "wait_s",
    )

    def __init__(self) -> None:
        """Begin at zero."""
        self.n_passes = 0
        self.n_sequences = 0
        self.n_committed = 0
        self.n_trips = 0
        self.n_rejected_servings = 0
        self.wait_s = 0.0
        self.crossing_s = 0.0

    def add(self, step: StepTrace, committed: Sequence[int]) -> None:
        """Take a pass in: `committed` tokens of each part, none if it failed."""
        if not any(step.decoding):
            return
        record = step.record
        self.n_passes += 1
        self.n_sequences += sum(step.decoding)
        self.n_trips += record.n_trips
        self.wait_s += record.wait_s
        self.crossing_s += record.crossing_s
        for is_decoding, n in zip(step.decoding, committed, strict=False):
            if is_decoding:
                self.n_committed += n

    def rejected(self, step: StepTrace, drafts: Sequence[int]) -> None:
        """Count servings that were for rejected drafts alone: so many of each part.

        They are accepted and paid as any other (design, 05), and told apart.
        """
        self.n_rejected_servings += step.n_remote_for(drafts)
