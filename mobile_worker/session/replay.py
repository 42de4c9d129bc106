"""Which packet counters were seen already: a sliding window (RFC 6479 in spirit).

`check` before a packet is opened, `commit` only after it proved authentic: a forged
counter must not move the window.
"""

__all__ = ["WINDOW", "ReplayWindow"]

WINDOW = 2048
_MASK = (1 << WINDOW) - 1


class ReplayWindow:
    """The last 2,048 counters up to the greatest one committed."""

    __slots__ = ("_greatest", "_seen")

    def __init__(self) -> None:
        self._greatest = -1
        self._seen = 0  # bit i: counter _greatest - i

    def check(self, counter: int) -> bool:
        """Tell whether a packet with this counter may be opened."""
        age = self._greatest - counter
        return age < 0 or (age < WINDOW and not self._seen >> age & 1)

    def commit(self, counter: int) -> None:
        """Note that an authentic packet had this counter."""
        ahead = counter - self._greatest
        if ahead <= 0:
            self._seen |= 1 << -ahead
        else:
            self._seen = (self._seen << ahead & _MASK | 1) if ahead < WINDOW else 1
            self._greatest = counter
