"""What can go wrong in the market, as one small tree.

    MarketError(P2pmoeError)
      OfferRefused          a worker's offer cannot be taken; the reason is sent to it
      NoticeRefused         a backbone's manifest cannot be taken; the reason is sent
      UnknownLease          a lease that this market does not know, or not of this peer
      MemoryFileBroken      the market's own durable file cannot be read or written

The first three are what a peer did: the service answers them with REFUSED and goes on.
"""

from p2pmoe.errors import P2pmoeError

__all__ = [
    "MarketError",
    "MemoryFileBroken",
    "NoticeRefused",
    "OfferRefused",
    "UnknownLease",
]


class MarketError(P2pmoeError):
    """Root of the market's errors."""


class OfferRefused(MarketError):
    """A worker's offer is out of bounds, badly signed, or its arithmetic differs."""


class NoticeRefused(MarketError):
    """A backbone's manifest is badly signed, malformed, or too much."""


class UnknownLease(MarketError):
    """No such lease, or it belongs to another worker."""


class MemoryFileBroken(MarketError):
    """The file in which the market remembers holdings cannot be used."""

    advice = "remove the file: workers offer again by themselves"
