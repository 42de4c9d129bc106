"""Signed vouchers on their way to the ledger: one queue for each tab and epoch.

Those of a tab go in their order, what waits together as one filing; without an answer
it is sent again with growing pauses, for ever. No I/O.
"""

import logging

from mobile_worker.messages.accounts import File, Filed
from mobile_worker.servings.chain import Settled
from mobile_worker.servings.filing import FilingQueue
from p2pmoe.backbone.journal import Filing

__all__ = ["Filings"]

log = logging.getLogger("p2pmoe.settlement")

MAX_FLYING = 64  # tabs whose filing is under way


class Filings:
    """What the ledger has not acknowledged yet; counts what it has."""

    def __init__(self) -> None:
        """Begin with nothing to file."""
        self.n_rejected = 0
        self.n_servings = 0  # in vouchers that the ledger has acknowledged
        self._queue = FilingQueue(MAX_FLYING)
        self._filings: dict[int, Filing] = {}  # by their entry in the spool

    def __len__(self) -> int:
        """Return how many vouchers wait for an answer."""
        return len(self._queue)

    def add(self, filing: Filing) -> None:
        """File a voucher that both sides have signed."""
        self._filings[filing.entry] = filing
        settled = Settled(
            raw=filing.raw,
            worker_signature=filing.worker_signature,
            backbone_signature=filing.backbone_signature,
            leaves=filing.leaves,
        )
        self._queue.add(filing.entry, settled)

    def holds(self, name: bytes) -> bool:
        """Say whether the voucher of this hash is not acknowledged."""
        return any(filing.name == name for filing in self._filings.values())

    def due(self, now: float) -> list[File]:
        """Return what is to be sent now."""
        return self._queue.due(now)

    def hurry(self) -> None:
        """Send all of it again at once: the ledger may be listening again."""
        self._queue.hurry()

    def filed(self, answer: Filed, now: float) -> list[Filing]:
        """Take the ledger's answer; return what it has by it."""
        name, status = answer.voucher_hash, answer.status
        outcome = self._queue.filed(name, status, answer.reason, now)
        if outcome is None:
            return []
        if outcome.rejected:
            self.n_rejected += 1
            log.error("the ledger rejects a voucher: %s", outcome.rejected)
        filed = [self._filings.pop(entry) for entry in outcome.entries]
        # A final of ours alone is held: it counts when its worker's signature came.
        self.n_servings += sum(f.n_leaves for f in filed if f.worker_signature)
        return filed
