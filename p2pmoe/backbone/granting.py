"""Ask the ledger for grants, and believe of its answers what it signed. No waiting."""

import logging
from collections.abc import Callable

from ledger.errors import LedgerError
from ledger.grant import Grant, verify_grant
from mobile_worker import messages
from relay.keys import PeerId

__all__ = ["GrantDesk"]

log = logging.getLogger("p2pmoe.settlement")


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
