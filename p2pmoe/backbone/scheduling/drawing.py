"""What is drawn from a sequence's logits, and what is told about it.

The model's own logits give the log probabilities; a constraint then leaves out what
must not come, and the sampler's noise depends on seed and position alone, so a
sequence's tokens do not depend on who shares its steps. Pure, but for the constraint's
state.
"""

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.backbone.generation import TokenLogprobs
from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.errors import RequestFailed
from p2pmoe.model.sampler import log_probabilities, sample

__all__ = ["draw", "logprobs_of", "score_prompt"]


def draw(sequence: SequenceState, logits: Floats) -> tuple[int, TokenLogprobs | None]:
    """Draw the next token from f32 [n_vocab] and append it; RequestFailed.

    Its log probabilities come with it, if they were asked for.
    """
    request = sequence.request
    allowed = logits
    if request.constraint is not None:
        if sequence.constraint is None:
            sequence.constraint = request.constraint()
        mask = sequence.constraint.allowed()
        if mask.shape != logits.shape or not mask.any():
            raise RequestFailed("the grammar allows no token here")
        allowed = np.where(mask, logits, np.float32(-np.inf))
    history = sequence.tokens
    token = sample(allowed, request.sampling, history, len(history))
    if sequence.constraint is not None:
        sequence.constraint.accept(token)
    told = None
    if request.n_top_logprobs is not None:
        told = logprobs_of(logits, token, request.n_top_logprobs)
    sequence.tokens.append(token)
    return token, told


def logprobs_of(logits: Floats, token: int, n_top: int) -> TokenLogprobs:
    """Return a token's log probability and the likeliest tokens, best first."""
    scores = log_probabilities(logits)
    n = min(n_top, len(scores))
    top: tuple[tuple[int, float], ...] = ()
    if n:
        least = np.partition(scores, len(scores) - n)[len(scores) - n]
        ids = np.flatnonzero(scores >= least)  # ascending, all that tie with the last
        ids = ids[np.argsort(-scores[ids], kind="stable")][:n]
        top = tuple((int(i), float(scores[i])) for i in ids)
    return TokenLogprobs(token=token, logprob=float(scores[token]), top=top)


def score_prompt(sequence: SequenceState, logits: Floats, first: int) -> None:
    """Score the prompt's tokens that follow positions `first` on.

    `logits` f32 [n, n_vocab] are those after each of n positions. What was scored
    before a preemption is not scored again.
    """
    request, scored = sequence.request, sequence.prompt_logprobs
    if not scored:
        scored.append(TokenLogprobs(token=request.prompt_ids[0], logprob=None))
    n_top = request.n_top_logprobs or 0
    for row, own in enumerate(logits):
        place = first + row + 1
        if place == len(scored) and place < sequence.n_prompt:
            scored.append(logprobs_of(own, request.prompt_ids[place], n_top))
