"""Verification: a sequence's drafts against what its own logits draw.

Row by row: the token that plain decoding would draw is drawn, and as long as it is the
draft's next one the row after it counts too. So what is committed is what would have
been drawn anyway, whoever drafted (faults B17, B18): a block ends at the first token
that no draft foresaw, at a stop token, at `max_tokens`, or where nothing can be drawn.
The cache is cut back to what was committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.backbone.generation import TokenLogprobs
from p2pmoe.backbone.scheduling.drawing import draw
from p2pmoe.backbone.scheduling.sequence import SequenceState

__all__ = ["NOTHING", "Verified", "verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a pass committed; `error` is why the token after `tokens` is none."""

    tokens: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    n_drafted: int = 0
    n_accepted: int = 0  # drafts that were drawn
    error: Exception | None = None


NOTHING: Final = Verified()  # of a pass in the midst of a prompt


def verify(
    sequence: SequenceState, logits: Floats, drafts: Sequence[int] = ()
) -> Verified:
    """Draw from the last rows f32 [>= 1 + n_drafts, n_vocab], and cut the cache back.

    The first of these rows is that of the sequence's last token, the others are those
    of the drafts, which the cache holds behind it. Tokens are appended to the sequence.
    """
    request, cache = sequence.request, sequence.cache
    rows = logits[len(logits) - 1 - len(drafts) :]
    tokens: list[int] = []
    logprobs: list[TokenLogprobs] = []
    n_accepted, error = 0, None
    for row, own in enumerate(rows):
        try:
            token, told = draw(sequence, own)
        except Exception as failure:  # noqa: BLE001 - a grammar's, a sampler's
            error = failure
            break
        tokens.append(token)
        logprobs += () if told is None else (told,)
        if row == len(drafts) or token != drafts[row]:
            break
        n_accepted += 1
        if token in request.stop_ids or sequence.n_drawn >= request.max_tokens:
            break
    if cache is not None and drafts:
        # What was drawn last has not been run; without an error, that is one token.
        cache.truncate(len(sequence.tokens) - (error is None))
    return Verified(
        tokens=tuple(tokens),
        logprobs=tuple(logprobs),
        n_drafted=len(drafts),
        n_accepted=n_accepted,
        error=error,
    )
