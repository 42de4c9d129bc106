"""Why limits are not taken, in one line each.

WorkerError
  LocalError
    LimitsRefused          a setting that is none, or a file of them that is not read
"""

from mobile_worker.errors import LocalError

__all__ = ["LimitsRefused"]


class LimitsRefused(LocalError):
    """A limit that cannot be, or a file of limits that cannot be read or written."""
