"""Why a worker does not start or ends, in one line each.

WorkerError
  LocalError
    ArithmeticDiffers      this machine's arithmetic is not the specification's
    LimitRefused           a limit that this machine cannot keep
    NetworkUnfit           the relay names no market, or another network
  RemoteError
    MarketRefused          the market does not take this worker
"""

from mobile_worker.errors import LocalError, RemoteError

__all__ = ["ArithmeticDiffers", "LimitRefused", "MarketRefused", "NetworkUnfit"]


class ArithmeticDiffers(LocalError):
    """The self-test gave another digest: results here would be wrong."""


class LimitRefused(LocalError):
    """A limit that does not fit this machine."""


class NetworkUnfit(LocalError):
    """The network that the relay belongs to cannot be worked for."""


class MarketRefused(RemoteError):
    """The market's own words say why."""
