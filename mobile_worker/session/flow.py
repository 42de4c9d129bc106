"""Byte credit, end to end, per session and class.

The receiver says up to which stream offset it takes bytes: what it has seen, plus its
window, less what its owner has not taken yet. Every frame carries its own offset, so
bytes that were lost on the way are forgiven with the next frame that arrives. A sender
that cannot go on says so (BLOCKED), which brings a fresh grant even if both the frames
and the grant were lost.
"""

from dataclasses import dataclass, field

from mobile_worker.messages.classes import MessageClass

__all__ = ["FIRST_WINDOW_BYTES", "Flow", "Receiving", "Sending"]

FIRST_WINDOW_BYTES = 64 << 10  # what either side may send before any grant


@dataclass(slots=True)
class Sending:
    """What we sent of one class, and up to where we may."""

    offset: int = 0
    limit: int = FIRST_WINDOW_BYTES

    @property
    def available(self) -> int:
        """Bytes that may be sent now."""
        return self.limit - self.offset


@dataclass(slots=True)
class Receiving:
    """What arrived of one class, and up to where we granted."""

    reached: int = 0
    granted: int = FIRST_WINDOW_BYTES  # the most ever granted: all of it is taken
    told: int = FIRST_WINDOW_BYTES  # the last grant, by which the sender goes

    def arrived(self, end: int) -> None:
        """Note a frame whose bytes end at this stream offset."""
        self.reached = max(self.reached, end)

    def grant(self, window: int, waiting: int, *, force: bool = False) -> int | None:
        """Return a new limit worth telling, else None.

        window: bytes we take without their being consumed; waiting: bytes that our
        owner has not taken. A step below a quarter of the window is not worth it.
        """
        limit = self.reached + max(0, window - waiting)
        if not force and limit - self.told < max(1, window // 4):
            return None
        self.told = limit
        self.granted = max(self.granted, limit)
        return limit


def _sending() -> list[Sending]:
    return [Sending() for _ in MessageClass]


def _receiving() -> list[Receiving]:
    return [Receiving() for _ in MessageClass]


@dataclass(slots=True)
class Flow:
    """Both directions of one session; each list has one entry per message class."""

    sending: list[Sending] = field(default_factory=_sending)
    receiving: list[Receiving] = field(default_factory=_receiving)

    def narrow(self, message_class: MessageClass, window: int) -> None:
        """Go on as if no more than `window` bytes had been granted either way."""
        sending = self.sending[message_class]
        sending.limit = min(sending.limit, sending.offset + window)
