"""Merges of a SentencePiece vocabulary, from its tokens and their scores, and back.

SentencePiece joins, at each step, the two neighbours whose joined text has the best
score. Written as ranked merges: every token's splits into two tokens, better scores
first. Among the splits of one token the order matters only where two overlap, inside
a run of one repeated text: there the shorter left part goes first, not the left place.

A tokenizer.json gives the merges without the scores. They are the same thing if each
token's merges stand together and none is left out; then a token's score is minus its
place in that order.
"""

from collections.abc import Mapping, Sequence

from p2pmoe.text.errors import TokenizerError

__all__ = ["merge_scores", "score_merges"]

_MAX_WORK = 1 << 28  # characters looked at: about a second
_NEVER_MERGED = -1e9  # also what is no result of a merge


def score_merges(
    known: Mapping[str, int], scores: Mapping[str, float]
) -> list[tuple[str, str]]:
    """Return all pairs (left, right) of `known` texts that join to a known text.

    Best score first; equal scores by token id, then by where the split is.

    Raises:
        TokenizerError: The tokens are so long that this would take minutes.
    """
    work = sum(len(text) ** 2 for text in known)
    if work > _MAX_WORK:
        raise TokenizerError(f"tokens are too long to split: {work} characters")
    ranked = sorted(known, key=lambda text: (-scores[text], known[text]))
    return [
        (text[:cut], text[cut:])
        for text in ranked
        for cut in range(1, len(text))
        if text[:cut] in known and text[cut:] in known
    ]


def merge_scores(
    merges: Sequence[tuple[str, str]], known: Mapping[str, int]
) -> dict[str, float]:
    """Return scores of all `known` texts for which `score_merges` means `merges`.

    Raises:
        TokenizerError: There are none: the merges are not those of SentencePiece.
    """
    scores = dict.fromkeys(known, _NEVER_MERGED)
    order: list[str] = []
    for left, right in merges:
        joined = left + right
        if not (left in known and right in known and joined in known):
            raise TokenizerError(
                f"merge {left[:40]!r} {right[:40]!r} names a token that is not there"
            )
        if not order or order[-1] != joined:
            order.append(joined)
            scores[joined] = float(-len(order))
    if len(set(order)) != len(order):
        raise TokenizerError("merges of one token do not stand together")
    if set(score_merges(known, scores)) != set(merges):
        raise TokenizerError("merges are left out that SentencePiece would make")
    return scores
