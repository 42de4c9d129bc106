"""What a session tells its owner after a packet or with the passing of time."""

from typing import NamedTuple, TypeAlias

from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.records import PeerRecord

__all__ = [
    "Delivered",
    "Established",
    "Failed",
    "Farewell",
    "Outcome",
    "ProbeAnswered",
]


class Delivered(NamedTuple):
    """A whole message; `Session.consumed` gives its credit back."""

    message: bytes
    message_class: MessageClass


class Established(NamedTuple):
    """New keys are in use.

    restarted: the peer is another process than before, so that what was under way is
    lost; `n_dropped` messages that waited for the old one were dropped.
    """

    record: PeerRecord
    restarted: bool
    n_dropped: int


class Failed(NamedTuple):
    """The peer cannot be reached; `n_dropped` waiting messages were dropped."""

    n_dropped: int


class ProbeAnswered(NamedTuple):
    """The peer answered our probe, by the link that this packet came by."""

    token: int


class Farewell(NamedTuple):
    """The peer's process ends in good order."""


Outcome: TypeAlias = Delivered | Established | Failed | Farewell | ProbeAnswered
"""Any of them."""
