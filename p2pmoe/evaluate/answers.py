"""Whether an answer is right.

Compared is what is left after case, accents' encoding (NFKC), runs of white space and
the punctuation around the answer are made equal:

    exact      the answer is one of the expected texts; of a text that goes on, the
               first line that is not blank counts
    contains   one of them stands in the answer, between other letters or digits
    starts     the answer begins with one of them, and no letter or digit follows
    number     the first number in the answer equals one of them
    choices    of the choices, the one that the model finds likeliest is expected: by
               the sum of the log probabilities of its tokens behind the prompt
"""

import math
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from p2pmoe.evaluate.task_set import Match

__all__ = ["is_right", "likeliest", "plain"]

_NUMBER: Final = re.compile(r"[-+]?\d[\d,]{0,30}(?:\.\d{1,30})?(?:[eE][-+]?\d{1,3})?")
_AROUND: Final = " \t\r\n.,;:!?\"'`*_()[]{}"


def plain(text: str) -> str:
    """Return a text as answers are compared."""
    text = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(text.split()).strip(_AROUND)


def is_right(answer: str, expect: Sequence[str], match: Match) -> bool:
    """Say whether an answer is one of those expected; see the module."""
    if match is Match.NUMBER:
        found = _NUMBER.search(answer)
        return found is not None and any(
            math.isclose(_number(found[0]), float(each), rel_tol=1e-9, abs_tol=1e-12)
            for each in expect
        )
    if match is Match.EXACT:
        line = next((line for line in answer.splitlines() if line.strip()), "")
        return plain(line) in {plain(each) for each in expect}
    given = plain(answer)
    return any(_stands(plain(each), given, match) for each in expect)


def likeliest(scores: Sequence[float]) -> int:
    """Return which of the choices is the likeliest, the first of equal ones."""
    return max(range(len(scores)), key=lambda n: (scores[n], -n))


def _stands(expected: str, given: str, match: Match) -> bool:
    if not expected:
        return False
    before = "^" if match is Match.STARTS else r"(?<!\w)"
    return re.search(rf"{before}{re.escape(expected)}(?!\w)", given) is not None


def _number(text: str) -> float:
    return float(text.replace(",", ""))
