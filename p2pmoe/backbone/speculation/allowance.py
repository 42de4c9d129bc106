"""How much time speculation may lose: the bound behind "never 5 % slower".

Time is lent: a few plain passes at the start of each request, a small share of all time
that goes by, and what speculation has saved before. A round may be tried only if all
that it can lose is there. So whatever is drafted, and however wrong estimates of
acceptance are, the time lost against decoding plainly is at most what was lent
(`FIRST_PASSES` passes and `SHARE` of the time). Seconds; pure.
"""

__all__ = ["FIRST_PASSES", "SHARE", "Allowance"]

SHARE = 0.02
FIRST_PASSES = 3.0
_MOST_PASSES = 64.0  # what is saved up; beyond it, savings are the request's


class Allowance:
    """An account of time that may be lost."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        """Begin with nothing, until `renew` says what a pass takes."""
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        """What may be lost now; negative after a loss that was not foreseen."""
        return self._seconds

    def renew(self, plain_s: float, *, fresh: bool) -> None:
        """Begin a request: at most a few passes of `plain_s` are lent to it.

        `fresh`: the first, which gets them all; a later one gets no more than is left,
        and what others before it saved is not spent on it.
        """
        lent = FIRST_PASSES * plain_s
        self._seconds = lent if fresh else min(self._seconds, lent)

    def pass_by(self, spent_s: float, lost_s: float, plain_s: float) -> None:
        """Take in a round: the time it took, and what it lost; less than 0: saved."""
        self._seconds += SHARE * spent_s - lost_s
        self._seconds = min(self._seconds, _MOST_PASSES * plain_s)
