"""A rate of bytes that is not exceeded for long: a bucket that fills with time. Pure.

What is sent is taken out at once, below nothing if need be; who sends next waits until
the bucket is no longer empty. So a large answer goes out whole, and the pause after it
is as long as it was large.
"""

__all__ = ["Pacer"]

_BURST_S = 1.0


class Pacer:
    """Bytes a second, with a burst of a second's; 0 paces nothing."""

    def __init__(self, bytes_s: float = 0.0) -> None:
        self.bytes_s = bytes_s
        self._room = bytes_s * _BURST_S
        self._seen_at: float | None = None

    def allow(self, bytes_s: float) -> None:
        """Pace by another rate from now on."""
        if bytes_s != self.bytes_s:
            self.bytes_s = bytes_s
            self._room = min(self._room, bytes_s * _BURST_S) if bytes_s else 0.0

    def spent(self, n_bytes: int, now: float) -> None:
        """Note that so much was sent."""
        if self.bytes_s:
            self._fill(now)
            self._room -= n_bytes

    def wait_s(self, now: float) -> float:
        """Return how long to wait before sending more."""
        if not self.bytes_s:
            return 0.0
        self._fill(now)
        return max(0.0, -self._room / self.bytes_s)

    def _fill(self, now: float) -> None:
        if self._seen_at is not None:
            gained = max(0.0, now - self._seen_at) * self.bytes_s
            self._room = min(self._room + gained, self.bytes_s * _BURST_S)
        self._seen_at = now
