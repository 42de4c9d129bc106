"""How a worker stands with the market, as both ends name it.

    PROBATION   too few checks have passed: it serves, its replicas do not count yet
    GOOD        its replicas count
    SUSPENDED   a wrong result was confirmed: no leases for a while, then probation
    REFUSED     two were: this key is not taken any more

The numbers travel in STANDING. Source: design/06, "Verification".
"""

from enum import IntEnum, unique

__all__ = ["StandingReason", "StandingState"]


@unique
class StandingState(IntEnum):
    """What a worker may do."""

    PROBATION = 0
    GOOD = 1
    SUSPENDED = 2
    REFUSED = 3

    @property
    def is_kicked(self) -> bool:
        """Whether it is given no leases."""
        return self in {StandingState.SUSPENDED, StandingState.REFUSED}


@unique
class StandingReason(IntEnum):
    """Why it stands as it does; words and figures go with it."""

    NEW = 0  # few checks so far
    CHECKED = 1  # enough of them passed
    WRONG_CANARY = 2  # other domains found another result for a canary
    WRONG_SERVING = 3  # the ledger found a paid serving wrong
    NEIGHBOURS = 4  # several keys of its failure domain gave wrong results
    BEGUN_AGAIN = 5  # a suspension is over: more checks than a new key needs
