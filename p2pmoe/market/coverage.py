"""Coverage and targets: how well an expert is held, and how well it should be.

Live coverage R of an expert is, summed over failure domains, min(1, sum of the
availabilities of the devices there): a second copy in the same building makes up for
absences, never for the building. A target T is max(R_min, ceil(k q / mu)): the floor,
or enough replicas for the demand.

Pure. All coverage is in integer per mille (1000 = one device that is always there), so
that adding and removing in any order gives the same number.

Source: design/06, "Price" and "Assignment".
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = [
    "FLOOR_WITHOUT_DISK",
    "FULL_PERMILLE",
    "MAX_TARGET",
    "DomainCoverage",
    "Replica",
    "coverage_permille",
    "floor_of",
    "is_met",
    "met_permille",
    "replica_overhead_bytes",
    "replica_target",
]

FULL_PERMILLE = 1000
FLOOR_WITHOUT_DISK = 2
MAX_TARGET = 64
_TOLERANCE_PERMILLE = 50  # coverage within 5 % of its target counts as met


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One device that holds the expert."""

    domain: str
    availability: int  # per mille


def coverage_permille(replicas: Iterable[Replica]) -> int:
    """Return R: over domains, the sum of min(1, sum of availability), per mille."""
    sums: dict[str, int] = {}
    for replica in replicas:
        sums[replica.domain] = sums.get(replica.domain, 0) + replica.availability
    return sum(min(FULL_PERMILLE, total) for total in sums.values())


class DomainCoverage:
    """The same sum, kept while replicas come and go; each change is O(1).

    `sums`: of availability, by domain; only domains that hold a replica. Not to be
    changed outside.
    """

    __slots__ = ("permille", "sums")

    def __init__(self) -> None:
        self.sums: dict[str, int] = {}
        self.permille = 0

    def add(self, domain: str, availability: int) -> None:
        """Count one more replica."""
        sums = self.sums
        before = sums.get(domain, 0)
        after = sums[domain] = before + availability
        if after <= FULL_PERMILLE:
            self.permille += availability
        elif before < FULL_PERMILLE:
            self.permille += FULL_PERMILLE - before

    def remove(self, domain: str, availability: int) -> None:
        """Take a replica out that was added with the same values."""
        before = self.sums[domain]
        after = before - availability
        if after > 0:
            self.sums[domain] = after
        else:
            del self.sums[domain]
        self.permille += min(FULL_PERMILLE, after) - min(FULL_PERMILLE, before)

    def without(self, domain: str, availability: int) -> int:
        """Return the coverage that would be left without this replica, per mille."""
        before = self.sums.get(domain, 0)
        after = max(0, before - availability)
        return self.permille - min(FULL_PERMILLE, before) + min(FULL_PERMILLE, after)

    def __contains__(self, domain: str) -> bool:
        return domain in self.sums


def floor_of(*, has_disk: bool) -> int:
    """Return R_min: 0 where the backbone reads the expert from its own disk, else 2."""
    return 0 if has_disk else FLOOR_WITHOUT_DISK


def replica_target(demand: float, *, replica_rate: float, floor: int) -> int:
    """Return T = max(floor, ceil(demand / replica_rate)), at most 64.

    `demand` and `replica_rate` are in the same unit: servings a second, or multiples
    of the mean demand.
    """
    if demand <= 0.0:
        return floor
    return max(floor, min(MAX_TARGET, math.ceil(demand / replica_rate)))


def is_met(permille: int, target: int) -> bool:
    """Tell whether coverage is within 5 % of the target (replicas)."""
    return permille >= met_permille(target)


def met_permille(target: int) -> int:
    """Return the least coverage that counts as a target of so many replicas."""
    return (FULL_PERMILLE - _TOLERANCE_PERMILLE) * target


def replica_overhead_bytes(n_bytes: int, n_replicas: int) -> int:
    """Return the memory that replication of one expert costs beyond one copy."""
    return n_bytes * max(0, n_replicas - 1)
