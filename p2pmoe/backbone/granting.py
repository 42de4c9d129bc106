"""Ask the ledger for grants, and believe of its answers what it signed. No waiting."""

import logging
from collections.abc import Callable

from ledger.errors import LedgerError
from ledger.grant import Grant, verify_grant
from mobile_worker import messages
from relay.keys import PeerId

__all__ = ["GrantDesk", "GrantSizes"]

log = logging.getLogger("p2pmoe.settlement")

_LEAST_ROWS = 4_000
_MOST_ROWS = 20_000


class GrantSizes:
    """How many rows at the base price the next grant of each worker is to cover.

    What a grant reserves stays reserved for days after prices have changed, so it
    follows use: in one epoch each further grant is twice as large, and the first of the
    next epoch half as large as the last one was.
    """

    def __init__(self) -> None:
        """Begin with no worker known."""
        self._last: dict[PeerId, tuple[int, int]] = {}  # granted: epoch and rows
        self._asked: dict[PeerId, tuple[int, int]] = {}

    def granted(self, worker: PeerId) -> None:
        """Note that what was asked for last was granted."""
        if worker in self._asked:
            self._last[worker] = self._asked.pop(worker)

    def next_rows(self, worker: PeerId, epoch: int) -> int:
        """Return the rows of the grant that is asked for now."""
        last_epoch, rows = self._last.get(worker, (epoch, _LEAST_ROWS // 2))
        rows = rows * 2 if epoch == last_epoch else rows // 2
        rows = max(_LEAST_ROWS, min(_MOST_ROWS, rows))
        self._asked[worker] = (epoch, rows)
        return rows


class GrantDesk:
    """Numbers requests, at the prices that the market signed last."""

    def __init__(
        self, send: Callable[[PeerId, messages.Message], None], ledger: PeerId
    ) -> None:
        """Begin without prices; `send` queues a message."""
        self._send = send
        self._ledger = ledger
        self._next_request = 1
        self.prices: tuple[bytes, bytes] = (b"", b"")  # table, the market's signature

    def ask(self, worker: PeerId, ceiling_uc: int) -> int:
        """Send a request and return its number; there must be prices."""
        self._next_request += 1
        table, signature = self.prices
        self._send(
            self._ledger,
            messages.GrantRequest(
                request=self._next_request,
                worker=worker,
                ceiling_uc=max(1, ceiling_uc),
                price_table=table,
                price_signature=signature,
            ),
        )
        return self._next_request

    def verified(
        self, message: messages.Grant, worker: PeerId, backbone: bytes
    ) -> Grant | None:
        """Return the grant of an answer, if the ledger signed it for this pair."""
        try:
            grant = verify_grant(message.grant, message.signature, self._ledger)
        except LedgerError as error:
            log.warning("a grant that is none: %s", error)
            return None
        return grant if (grant.worker, grant.backbone) == (worker, backbone) else None
