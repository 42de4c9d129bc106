"""Whether a long answer holds together, as far as counting words can tell.

What these figures say, and what they do not: they find the ways in which a damaged or
too coarsely quantised model goes wrong first (it repeats itself, it answers another
time something else), and nothing of whether a long answer is true or good.

    repetition    of all runs of four words in the answer, the share that stood in it
                  before; a text that turns in circles comes near 1
    distinct      of all pairs of neighbouring words, the share of different ones
    stability     what answers of different seeds have in common: twice the words that
                  two answers share (as often as both have them) over all their words,
                  the mean over all pairs of answers; it tells runs apart that are made
                  with the same seeds, and by itself says little
    consistency   the share of seeds whose answer to the probe, greedily asked after
                  half of the long answer and after all of it, is the same

Words are runs of letters, digits and underscores, whatever their case. Languages that
write without spaces give few and long words; there only `consistency` says much.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, pairwise

from p2pmoe.evaluate.answers import plain

__all__ = ["distinct_share", "halves", "repetition", "same_answers", "stability"]

_RUN = 4


def repetition(text: str) -> float:
    """Return the share of four-word runs that came before; 0 for a shorter text."""
    words = _words(text)
    runs = [tuple(words[n : n + _RUN]) for n in range(len(words) - _RUN + 1)]
    return 1.0 - len(set(runs)) / len(runs) if runs else 0.0


def distinct_share(text: str) -> float:
    """Return the share of different pairs among all pairs; 1 for a shorter text."""
    words = _words(text)
    pairs = list(pairwise(words))
    return len(set(pairs)) / len(pairs) if pairs else 1.0


def stability(answers: Sequence[str]) -> float | None:
    """Return what answers have in common, 0 to 1; None for fewer than two."""
    counts = [Counter(_words(answer)) for answer in answers]
    shares = [_overlap(one, other) for one, other in combinations(counts, 2)]
    return sum(shares) / len(shares) if shares else None


def same_answers(early: str, late: str) -> bool:
    """Say whether the probe was answered the same twice; silence is no answer."""
    return bool(plain(early)) and plain(early) == plain(late)


def halves(text: str) -> tuple[str, str]:
    """Return the first half of a text, to the end of a word, and the whole."""
    cut = text.rfind(" ", 0, len(text) // 2 + 1)
    return text[: cut if cut > 0 else len(text) // 2], text


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _overlap(one: Counter[str], other: Counter[str]) -> float:
    n_words = one.total() + other.total()
    return 2 * (one & other).total() / n_words if n_words else 0.0
