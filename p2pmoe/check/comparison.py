"""Run a reference's prompt through a model, and compare what comes out.

    produce   the logits of the reference's rows, and the greedy ids that follow
    compare   the largest absolute error, and how many greedy ids are equal

Where the routed experts are computed is the caller's business: `produce` is a plain
function of a model and whoever serves its experts. Pure but for `tell`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.check.reference import Reference
from p2pmoe.model.experts import ExpertCaller
from p2pmoe.model.model import Logits, Model

__all__ = ["CHUNK_TOKENS", "Comparison", "Produced", "Tell", "compare", "produce"]

CHUNK_TOKENS = 64  # of the prompt, at a time; changes no result

Tell = Callable[[float], None]  # the share done, 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Produced:
    """What a model gave for a reference's prompt."""

    logits: Floats  # [len(rows), n_vocab], of the reference's rows
    greedy: tuple[int, ...]  # as many ids as the reference has


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How far a model is from a reference.

    `max_abs_error` is the largest absolute difference of two logits, infinite where one
    is not finite; `worst_row` is the position where it was found.
    """

    max_abs_error: float
    worst_row: int
    n_rows: int
    n_greedy: int
    n_greedy_equal: int

    def holds(self, tolerance: float) -> bool:
        """Say whether the error is within it and all greedy ids are equal."""
        within = self.max_abs_error <= tolerance
        return within and self.n_greedy_equal == self.n_greedy


def produce(
    model: Model,
    experts: ExpertCaller,
    reference: Reference,
    tell: Tell = lambda _: None,
) -> Produced:
    """Run the prompt, keep the rows asked for, and go on greedily.

    Args:
        model: a model with the reference's vocabulary.
        experts: who computes the routed experts.
        reference: what to run.
        tell: called with the share done after each step.

    Raises:
        P2pmoeError, ArithmeticRefused: as `Model.forward` and `experts` do.
    """
    prompt, n_greedy = reference.prompt, len(reference.greedy)
    n_steps = len(prompt) + n_greedy
    cache = model.new_cache(n_steps)
    wanted, kept = set(reference.rows), []
    last: Floats | None = None
    for first in range(0, len(prompt), CHUNK_TOKENS):
        chunk = prompt[first : first + CHUNK_TOKENS]
        own = sorted(wanted.intersection(range(first, first + len(chunk))))
        which = Logits.ALL if own else Logits.LAST
        logits = model.forward(chunk, cache, experts, logits=which)
        kept += [logits[row - first].copy() for row in own]
        last = logits[-1].copy()
        tell((first + len(chunk)) / n_steps)
    greedy: list[int] = []
    while last is not None and len(greedy) < n_greedy:
        greedy.append(int(last.argmax()))
        if len(greedy) < n_greedy:
            last = model.forward(greedy[-1:], cache, experts)[-1]
        tell((len(prompt) + len(greedy)) / n_steps)
    return Produced(logits=np.stack(kept), greedy=tuple(greedy))


def compare(reference: Reference, produced: Produced) -> Comparison:
    """Return how far `produced` is from the reference that it was made for."""
    rows = zip(produced.logits, reference.logits, strict=True)
    errors = [_largest_error(mine, theirs) for mine, theirs in rows]
    worst = max(range(len(errors)), key=errors.__getitem__)
    pairs = zip(reference.greedy, produced.greedy, strict=True)
    return Comparison(
        max_abs_error=errors[worst],
        worst_row=reference.rows[worst],
        n_rows=len(reference.rows),
        n_greedy=len(reference.greedy),
        n_greedy_equal=sum(mine == other for mine, other in pairs),
    )


def _largest_error(mine: Floats, theirs: Floats) -> float:
    error = float(np.abs(mine.astype(np.float64) - theirs).max())
    return error if math.isfinite(error) else math.inf
