"""What this backbone's own checks of workers came to, for the market: AUDIT.

Counted by worker, outcome and expert since the last report. A failed check is reported
at once, the rest every ten seconds. Silence that was noted since our relay was last
seen up is forgotten when the link goes down: it may have been the link. At most 1,024
workers are counted between two reports, further ones not. State only; times are the
caller's monotonic seconds.
"""

from collections.abc import Iterable

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import Audit, CheckOutcome
from relay.keys import PeerId

__all__ = ["REPORT_S", "AuditReports"]

REPORT_S = 10.0
_MAX_WORKERS = 1024


class AuditReports:
    """Counts that wait to be reported."""

    def __init__(self) -> None:
        """Begin with none."""
        self._counts: dict[tuple[PeerId, CheckOutcome], dict[ExpertId, int]] = {}
        self._reported_at = float("-inf")
        self._is_urgent = False

    def note(
        self, peer: PeerId, outcome: CheckOutcome, layer: int, experts: Iterable[int]
    ) -> None:
        """Count one check of each of these experts."""
        if len(self._counts) >= _MAX_WORKERS and (peer, outcome) not in self._counts:
            return
        counts = self._counts.setdefault((peer, outcome), {})
        for index in experts:
            expert = ExpertId(layer, index)
            counts[expert] = counts.get(expert, 0) + 1
        self._is_urgent |= outcome is CheckOutcome.FAILED

    def forget_silence(self) -> None:
        """Our link to the relay is down: who was silent may not have been at fault."""
        for peer, outcome in list(self._counts):
            if outcome is CheckOutcome.SILENT:
                del self._counts[peer, outcome]

    def take(self, now: float, manifest_hash: bytes) -> list[Audit]:
        """Return the reports that are due."""
        if not self._is_urgent and now - self._reported_at < REPORT_S:
            return []
        self._reported_at, self._is_urgent = now, False
        counts, self._counts = self._counts, {}
        return [
            Audit(
                worker=peer,
                manifest_hash=manifest_hash,
                outcome=int(outcome),
                counts=tuple(sorted(of_experts.items())),
            )
            for (peer, outcome), of_experts in counts.items()
        ]
