"""Perplexity on a text, by the procedure of llama.cpp's `llama-perplexity -c 256`.

The ids of the whole text, beginning-of-sequence first, are cut into chunks of equal
length; what is left over at the end is not used. Each chunk is a sequence of its own
whose first id is replaced by the beginning of sequence. Counted is the second half:
the negative log-likelihood of ids n/2 + 1 to n - 1 of each chunk, each predicted from
all before it. The perplexity is e to the mean.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from p2pmoe.model.experts import ExpertCaller
from p2pmoe.model.logits import Logits
from p2pmoe.model.model import Model
from p2pmoe.model.sampler import log_probabilities

__all__ = ["CHUNK_TOKENS", "Perplexity", "chunks_of", "perplexity"]

CHUNK_TOKENS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Perplexity:
    """A perplexity and what it was computed from."""

    value: float
    n_chunks: int
    n_scored: int  # ids whose likelihood counted


def perplexity(
    model: Model, experts: ExpertCaller, chunks: Sequence[Sequence[int]]
) -> Perplexity:
    """Return the perplexity over chunks of equal length, as `chunks_of` makes them.

    Raises ValueError for no chunks or chunks too short to score, and whatever the
    model raises.
    """
    if not chunks or min(map(len, chunks)) < 4:
        raise ValueError("no chunk of at least 4 ids to score")
    total, n_scored = 0.0, 0
    for chunk in chunks:
        cache = model.new_cache(len(chunk))
        logits = model.forward(chunk, cache, experts, logits=Logits.ALL)
        first = len(chunk) // 2 + 1
        scored = log_probabilities(logits[first - 1 : -1])
        answers = np.asarray(chunk[first:], np.int64)
        total -= float(scored[np.arange(len(answers)), answers].sum())
        n_scored += len(answers)
    return Perplexity(
        value=math.exp(total / n_scored), n_chunks=len(chunks), n_scored=n_scored
    )


def chunks_of(
    ids: Sequence[int], bos: int, n_tokens: int = CHUNK_TOKENS
) -> Iterator[list[int]]:
    """Cut ids into whole chunks, each beginning with `bos` in place of its first id."""
    for start in range(0, len(ids) - n_tokens + 1, n_tokens):
        yield [bos, *ids[start + 1 : start + n_tokens]]
