"""STANDBY papers of the market into the store, each answered once it is durable.

A paper is taken from the network's market alone, checked in a thread, booked by the
store's writer and answered with BOOKED after the commit. One paper is at work at a
time: they are large, and there is one an epoch. The market sends again what is not
answered, and a paper that is booked already is answered as booked; so what finds no
room is dropped, and nothing is lost. An error that begins with "later:" may go away (a
pot to be filled, a busy disk): such a paper is worth sending again, no other is.
"""

import logging
from collections.abc import Callable

import trio

from ledger.amounts import format_credits
from ledger.errors import LedgerError, PotEmpty, RemoteError
from ledger.standby import standby_hash
from ledger.store import Store
from mobile_worker.messages.audits import Booked, Standby
from mobile_worker.messages.codec import Message
from relay.keys import PeerId, short_id

__all__ = ["StandbyDesk"]

_LOG = logging.getLogger("p2pmoe.ledgerd")
_MAX_WAITING = 4  # papers; beyond them the market asks again
_MAX_TEXT = 200  # of an error on the wire
_LATER = "later: "


class StandbyDesk:
    """Books what the market sends; `run` until cancelled."""

    def __init__(
        self, store: Store, market: PeerId, send: Callable[[PeerId, Message], None]
    ) -> None:
        """Take the store, whose papers count, and a way to answer."""
        self._store = store
        self._market = market
        self._send = send
        self._put, self._get = trio.open_memory_channel[Standby](_MAX_WAITING)

    def take(self, peer: PeerId, message: Message) -> bool:
        """Queue a paper of the market; say whether the message was one at all."""
        if not isinstance(message, Standby):
            return False
        if peer != self._market:
            _LOG.warning("a standby paper of %s, who is no market", short_id(peer))
            return True
        try:
            self._put.send_nowait(message)
        except trio.WouldBlock:
            _LOG.warning("a standby paper found no room; the market sends it again")
        return True

    async def run(self) -> None:
        """Book one paper after the other."""
        async for message in self._get:
            error = await trio.to_thread.run_sync(
                self._book, message, abandon_on_cancel=True
            )
            name = standby_hash(message.paper)
            self._send(self._market, Booked(name=name, error=error[:_MAX_TEXT]))

    def _book(self, message: Standby) -> str:
        """Book a paper; return why it is not, empty where it is."""
        try:
            future = self._store.book_standby(message.paper, message.signature)
            booked = future.result()
        except RemoteError as exc:
            _LOG.warning("standby paper not booked: %s. %s", exc, exc.advice)
            return f"{_LATER}{exc}" if isinstance(exc, PotEmpty) else str(exc)
        except LedgerError as exc:
            _LOG.warning("standby paper not booked yet: %s", exc)
            return f"{_LATER}{exc}"
        except Exception:  # noqa: BLE001  a bug in one paper must not end the serving
            _LOG.exception("a standby paper failed")
            return f"{_LATER}the ledger failed, see its log"
        if not booked.is_repeat:
            _LOG.info(
                "standby paper %s booked: %s credits, %s of workers without a voucher",
                booked.name[:4].hex(),
                format_credits(booked.paid_uc),
                format_credits(booked.unpaid_uc),
            )
        return ""
