"""How far a run answers as a reference run does, on the same text.

Two measures, since one alone misleads. Position by position, given the same prefix:
which token is the likeliest, and how likely the text's own next token is. And greedy
continuations left to themselves, until the first token that differs: behind it the
prefix is another, and nothing more can be said.
"""

import math

from p2pmoe.evaluate.errors import RunsDiffer
from p2pmoe.evaluate.run_record import Continuation, EvaluationRun, WindowScore

__all__ = ["agreement", "check_reference", "leading_share"]


def check_reference(run: EvaluationRun) -> None:
    """Raise RunsDiffer unless a run has what others can be compared with."""
    if run.text is None or not run.windows:
        raise RunsDiffer(
            "the reference run has no text to agree on",
            advice="make it with --text, then name it as --reference",
        )


def agreement(run: EvaluationRun, reference: EvaluationRun) -> dict[str, float]:
    """Return the figures of agreement of a run with a reference.

    Raises:
        RunsDiffer: they are on different texts, cut otherwise, or of another
            vocabulary.
    """
    check_reference(reference)
    if run.text != reference.text:
        raise RunsDiffer(
            f"the reference has another text: {_difference(run, reference)}"
        )
    pairs = list(zip(run.windows, reference.windows, strict=True))
    n_positions = sum(len(window.logprobs) for window, _ in pairs)
    if any(len(a.logprobs) != len(b.logprobs) for a, b in pairs):
        raise RunsDiffer("the reference has windows of another length")
    figures = {
        "top1_agreement": sum(_n_same(a, b) for a, b in pairs) / n_positions,
        "logprob_difference": math.fsum(_apart(a, b) for a, b in pairs) / n_positions,
    }
    if run.continuations:
        both = zip(run.continuations, reference.continuations, strict=True)
        shares = [leading_share(a, b) for a, b in both]
        figures["greedy_agreement"] = math.fsum(shares) / len(shares)
    return figures


def leading_share(one: Continuation, other: Continuation) -> float:
    """Return how much of two answers is the same from the beginning, 0 to 1.

    Counted in tokens, or in characters where one of them has no ids.
    """
    first: tuple[object, ...] = tuple(one.text)
    second: tuple[object, ...] = tuple(other.text)
    if one.tokens and other.tokens:
        first, second = one.tokens, other.tokens
    n_most = max(len(first), len(second))
    if n_most == 0:
        return 1.0
    pairs = zip(first, second, strict=False)
    n_same = next((n for n, (a, b) in enumerate(pairs) if a != b), None)
    return (min(len(first), len(second)) if n_same is None else n_same) / n_most


def _difference(run: EvaluationRun, reference: EvaluationRun) -> str:
    mine, theirs = run.text, reference.text
    if mine is None or theirs is None:
        return "one of the runs has none"
    for name in mine.__slots__:
        if getattr(mine, name) != getattr(theirs, name):
            return f"{name} {getattr(mine, name)} here, {getattr(theirs, name)} there"
    return "nothing is"


def _n_same(one: WindowScore, other: WindowScore) -> int:
    return sum(a == b for a, b in zip(one.top, other.top, strict=True))


def _apart(one: WindowScore, other: WindowScore) -> float:
    pairs = zip(one.logprobs, other.logprobs, strict=True)
    return math.fsum(abs(a - b) for a, b in pairs)
