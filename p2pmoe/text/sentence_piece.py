"""Merges of a SentencePiece vocabulary, from its tokens and their scores.

SentencePiece joins, at each step, the two neighbours whose joined text has the best
score. Written as ranked merges: every token's splits into two tokens, better scores
first; among the splits of one token any order will do, since the joined text is the
same.
"""

from collections.abc import Mapping

__all__ = ["score_merges"]


def score_merges(
    known: Mapping[str, int], scores: Mapping[str, float]
) -> list[tuple[str, str]]:
    """Return all pairs (left, right) of `known` texts that join to a known text.

    Best score first; equal scores by token id, then by where the split is.
    """
    ranked = sorted(known, key=lambda text: (-scores[text], known[text]))
    return [
        (text[:cut], text[cut:])
        for text in ranked
        for cut in range(1, len(text))
        if text[:cut] in known and text[cut:] in known
    ]
