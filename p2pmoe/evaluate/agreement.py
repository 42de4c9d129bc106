"""How far a run answers as a reference run does, on the same text.

Two measures, since one alone misleads. Position by position, given the same prefix:
which token is the likeliest, and how likely the text's own next token is. And greedy
continuations left to themselves, until the first token that differs: behind it the
prefix is another, and nothing more can be said.
"""

import math
from dataclasses import fields

from p2pmoe.evaluate.errors import RunsDiffer
from p2pmoe.evaluate.measure_text import TextPlan
from p2pmoe.evaluate.run_record import Continuation, EvaluationRun, WindowScore

__all__ = ["agreement", "check_reference", "leading_share"]


def check_reference(run: EvaluationRun, plan: TextPlan | None) -> None:
    """Refuse a run with which what `plan` measures could not be compared.

    Raises:
        RunsDiffer: it has no text, or another one, or one cut otherwise.
    """
    if run.text is None or not run.windows or plan is None:
        raise RunsDiffer(
            "the reference run has no text to agree on",
            advice="make it with --text, then name it as --reference",
        )
    wanted = {
        "sha256": plan.sha256,
        "cut_by": plan.cut_by,
        "window_tokens": plan.window_tokens,
        "n_windows": len(plan.windows),
        "n_continuations": plan.n_continuations,
        "continuation_tokens": plan.continuation_tokens,
    }
    for name, value in wanted.items():
        if getattr(run.text, name) != value:
            raise RunsDiffer(
                f"the reference has another text: {name} {str(value)[:16]} here, "
                f"{str(getattr(run.text, name))[:16]} there"
            )


def agreement(run: EvaluationRun, reference: EvaluationRun) -> dict[str, float]:
    """Return the figures of agreement of a run with a reference.

    Raises:
        RunsDiffer: they are on different texts, cut otherwise, or of another
            vocabulary.
    """
    if run.text is None or run.text != reference.text:
        raise RunsDiffer(f"another text than the reference's: {_which(run, reference)}")
    if _shape(run) != _shape(reference) or not run.windows:
        raise RunsDiffer("the reference has windows of another length, or none")
    pairs = list(zip(run.windows, reference.windows, strict=True))
    n_positions = sum(len(window.logprobs) for window, _ in pairs)
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


def _which(run: EvaluationRun, reference: EvaluationRun) -> str:
    mine, theirs = run.text, reference.text
    if mine is None or theirs is None:
        return "one of the runs has none"
    names = [each.name for each in fields(mine)]
    return ", ".join(n for n in names if getattr(mine, n) != getattr(theirs, n))


def _shape(run: EvaluationRun) -> tuple[list[int], int]:
    return [len(window.logprobs) for window in run.windows], len(run.continuations)


def _n_same(one: WindowScore, other: WindowScore) -> int:
    return sum(a == b for a, b in zip(one.top, other.top, strict=True))


def _apart(one: WindowScore, other: WindowScore) -> float:
    pairs = zip(one.logprobs, other.logprobs, strict=True)
    return math.fsum(abs(a - b) for a, b in pairs)
