"""What a worker that has too much does about it: it holds less.

One that thrashes holds a quarter less; a limit that is lowered holds what it allows.

Experts are given back to the market with the reason, and it neither offers them again
nor uses the room that they took (design, 06); what is offered from then on is what is
left. So a worker on a machine whose memory others have taken gets slower work to do,
instead of answering late for ever (faults B15).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from mobile_worker.contribute.leases import LeaseBook
from mobile_worker.contribute.market_side import MarketSide
from mobile_worker.contribute.states import Facts
from mobile_worker.contribute.thrashing import ThrashWatch
from mobile_worker.expert_id import ExpertId
from mobile_worker.serve.held import HeldExperts

__all__ = ["MemoryRelief", "ReliefParts", "major_faults"]

logger = logging.getLogger("p2pmoe.contribute")

_KEPT_SHARE = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliefParts:
    """What is looked at and changed. n_faults: major faults of this process so far."""

    leases: LeaseBook
    held: HeldExperts
    market_side: MarketSide
    facts: Facts
    n_faults: Callable[[], int]


class MemoryRelief:
    """See the module."""

    def __init__(self, parts: ReliefParts) -> None:
        """Look from the first tick on."""
        self._parts = parts
        self._watch = ThrashWatch()

    def tick(self, now: float) -> None:
        """Look at the faults, and give experts back if there are too many for long."""
        parts = self._parts
        thrashes = self._watch.look(now, parts.n_faults())
        parts.facts.major_faults_s = self._watch.faults_s
        if thrashes and parts.held.used_bytes:
            self._hold_less()

    def hold_at_most(self, n_bytes: int, reason: str) -> None:
        """Hold and offer so much from now on; give back what is more."""
        parts = self._parts
        parts.held.max_bytes = n_bytes
        given = self._chosen(parts.held.used_bytes - n_bytes)
        if given:
            logger.warning(
                "%d experts are given back: %s", sum(map(len, given.values())), reason
            )
        for lease, experts in given.items():
            parts.leases.release(lease, experts)
            parts.market_side.give_back(lease, experts, reason)
        parts.market_side.offer_memory(parts.held.max_bytes)
        parts.market_side.on_leases()

    def _hold_less(self) -> None:
        kept = int(self._parts.held.used_bytes * _KEPT_SHARE)
        faults = f"{self._watch.faults_s:.0f} major page faults a second"
        self.hold_at_most(kept, f"{faults}: the memory promised is not there")

    def _chosen(self, n_bytes: int) -> dict[bytes, tuple[ExpertId, ...]]:
        """Return by lease what is to go: held experts, last first, of so many bytes."""
        parts, chosen = self._parts, dict[bytes, tuple[ExpertId, ...]]()
        for name in parts.leases.ids():
            lease = parts.leases.get(name)
            model = parts.held.model(lease.manifest_hash) if lease else None
            if lease is None or model is None:
                continue
            for expert in sorted(lease.held & model.experts.keys(), reverse=True):
                if n_bytes <= 0:
                    return chosen
                n_bytes -= model.experts[expert].n_bytes
                chosen[name] = (*chosen.get(name, ()), expert)
        return chosen


def major_faults() -> int:
    """Return this process's major page faults so far; 0 where nobody counts them."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt
