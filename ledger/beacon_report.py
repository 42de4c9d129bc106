"""What audits came to, added up by worker or by backbone. Read-only."""

from dataclasses import dataclass, field

from sqlalchemy import Connection, func, select

from ledger.beacon_words import AuditState
from ledger.schema_beacon import audit

__all__ = ["AuditRecord", "audit_records"]


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """How many audits of one peer stand where."""

    peer: bytes  # [32]
    counts: dict[AuditState, int] = field(default_factory=dict)

    def of(self, state: AuditState) -> int:
        """Return how many are in a state."""
        return self.counts.get(state, 0)

    @property
    def n_all(self) -> int:
        """All of them."""
        return sum(self.counts.values())


def audit_records(connection: Connection, *, by_backbone: bool) -> list[AuditRecord]:
    """Return every worker's record, or every backbone's, by id."""
    peer = audit.c.backbone if by_backbone else audit.c.worker
    rows = connection.execute(
        select(peer, audit.c.state, func.count())
        .group_by(peer, audit.c.state)
        .order_by(peer, audit.c.state)
    )
    found: dict[bytes, AuditRecord] = {}
    for owner, state, count in rows:
        record = found.setdefault(owner, AuditRecord(owner))
        record.counts[AuditState(state)] = int(count)
    return list(found.values())
