"""When to OFFER to the market; no I/O.

At once after joining, after the way to the market came back, and when the market has
forgotten us; then again with growing pauses until a LEASE comes. With leases in force
there is nothing to offer. The pauses never end: a market without work answers nothing
now and may have some later.
"""

__all__ = ["OfferTimes"]

_FIRST_PAUSE_S = 2.0
_MAX_PAUSE_S = 30.0


class OfferTimes:
    """The pauses between offers."""

    def __init__(self) -> None:
        """Offer at once."""
        self._due_at = float("-inf")
        self._pause_s = _FIRST_PAUSE_S
        self._answered = False

    @property
    def is_first(self) -> bool:
        """Whether no offer has waited in vain yet: the answer may be on its way."""
        return not self._answered and self._pause_s <= 2 * _FIRST_PAUSE_S

    def is_due(self, now: float) -> bool:
        """Say whether to offer now; the next one is then planned."""
        if self._answered or now < self._due_at:
            return False
        self._due_at = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)
        return True

    def answered(self) -> None:
        """A lease came: no further offers."""
        self._answered = True

    def unanswered(self) -> None:
        """What we said may not have arrived: offer again when the pause is over."""
        self._answered = False

    def start_over(self) -> None:
        """The market does not know us, or not any more: offer at once."""
        self._answered = False
        self._due_at = float("-inf")
        self._pause_s = _FIRST_PAUSE_S
