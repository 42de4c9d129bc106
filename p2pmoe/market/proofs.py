"""When each replica last proved that it is there: by a canary that it passed.

A replica is proven while its last pass is at most two and a half periods old: two
canaries may be nearly two periods apart, since the order changes. Three silences on end
about one expert take the proof away, however short ago it was: who answers for the
experts that it has and keeps silent about another hides nothing by it. Proofs are of
one presence: a worker that leaves begins anew. Pure; times are monotonic seconds.
"""

from collections.abc import Container

from mobile_worker.expert_id import ExpertId
from relay.keys import PeerId

__all__ = ["MAX_SILENCES", "PROOF_PERIODS", "Proofs"]

PROOF_PERIODS = 2.5
MAX_SILENCES = 3


class Proofs:
    """The last pass, and the silences since, of every replica."""

    def __init__(self, period_s: float) -> None:
        """Begin with none; a canary comes once in `period_s`."""
        self._lasts_s = PROOF_PERIODS * period_s
        self._passed: dict[PeerId, dict[tuple[bytes, ExpertId], float]] = {}
        self._silences: dict[PeerId, dict[tuple[bytes, ExpertId], int]] = {}

    def passed(
        self, peer: PeerId, manifest_hash: bytes, expert: ExpertId, now: float
    ) -> None:
        """Note that a replica gave the right result."""
        self._passed.setdefault(peer, {})[manifest_hash, expert] = now
        self._silences.get(peer, {}).pop((manifest_hash, expert), None)

    def silent(self, peer: PeerId, manifest_hash: bytes, expert: ExpertId) -> None:
        """Note that a replica's canary was not answered in time."""
        silences = self._silences.setdefault(peer, {})
        n = silences.get((manifest_hash, expert), 0) + 1
        silences[manifest_hash, expert] = n
        if n >= MAX_SILENCES:
            self._passed.get(peer, {}).pop((manifest_hash, expert), None)

    def failed(self, peer: PeerId) -> None:
        """A worker gave a wrong result: nothing of it is proven any more."""
        self._passed.pop(peer, None)

    def keep(self, peer: PeerId, manifest_hashes: Container[bytes]) -> None:
        """A worker's business with somebody has ended: only these models remain."""
        passed = self._passed.get(peer, {})
        for name in [name for name in passed if name[0] not in manifest_hashes]:
            del passed[name]

    def forget(self, peer: PeerId) -> None:
        """A worker is there no more."""
        self._passed.pop(peer, None)
        self._silences.pop(peer, None)

    def passed_at(
        self, peer: PeerId, manifest_hash: bytes, expert: ExpertId
    ) -> float | None:
        """Return when a replica last passed, None if never or not any more."""
        return self._passed.get(peer, {}).get((manifest_hash, expert))

    def is_proven(
        self, peer: PeerId, manifest_hash: bytes, expert: ExpertId, now: float
    ) -> bool:
        """Tell whether a replica has lately been seen to be there."""
        at = self.passed_at(peer, manifest_hash, expert)
        return at is not None and now - at <= self._lasts_s
