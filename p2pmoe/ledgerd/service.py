"""The ledger as a peer: grants and filings in, answers out, once they are durable.

One task reads the node's events; a few workers, each for its share of the peers, check
signatures in threads and hand over to the store; answers go out when the store's
future resolves, that is after the commit. Vouchers of one peer keep their order. What
finds no room gets "try again". A peer's nonsense is answered or ignored, and never
stops the service; so does a full disk: nothing is acknowledged, everything may be sent
again. STANDBY papers come from the market (`standby_desk`), paid demand goes to it
(`paid_rounds`). What is due as time goes by (closings, releases, the log) is done every
few seconds in a thread.

Ids that matter (network, market) are the operator's and never taken from a message.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

import trio

from ledger.claims import Filed, FiledStatus, GrantOrder, IssuedGrant
from ledger.database import LedgerIdentity
from ledger.errors import LedgerError, LogUnavailable, StoreBusy, StoreUnavailable
from ledger.settlement import GrantPolicy
from ledger.store import Store, StoreSettings
from ledger.voucher import SignedVoucher, voucher_hash
from mobile_worker.clock import Clock
from mobile_worker.errors import NodeClosed, SendQueueFull, UnsendableMessage
from mobile_worker.links.events import Arrived
from mobile_worker.links.inbox import Inbox
from mobile_worker.links.node import Node
from mobile_worker.messages import accounts as wire
from mobile_worker.messages.codec import Message
from mobile_worker.session.identity import Identity
from p2pmoe.ledgerd.auditor import Auditor
from p2pmoe.ledgerd.paid_rounds import PAID_SPAN_US, PaidRounds
from p2pmoe.ledgerd.standby_desk import StandbyDesk
from relay.keys import PeerId, short_id

__all__ = ["LedgerService", "open_store"]

_LOG = logging.getLogger("p2pmoe.ledgerd")
_N_WORKERS = 4
_MAX_WAITING = 256  # of one worker; beyond it a peer is told to try again
_MAX_OF_PEER = 64
_MAX_WAITING_BYTES = 64 << 20  # of one worker
_MAX_FLYING_BYTES = 128 << 20  # handed to the store, and not answered
_TEND_PERIOD_S = 5.0
_RETAIN_PERIOD_S = 3600.0
_MAX_TEXT = 200  # of an error or reason on the wire
T = TypeVar("T")
Request = wire.GrantRequest | wire.File


def open_store(
    folder: Path,
    identity: Identity,
    *,
    network: PeerId,
    market: PeerId,
    clock: Clock,
    opening_credit_uc: int = 0,
) -> Store:
    """Open the ledger's folder for writing.

    Args:
        folder: the data folder, made if missing.
        identity: the ledger's own key; it signs the grants.
        network: whose receipts these are.
        market: whose price tables count.
        clock: gives the ledger's time.
        opening_credit_uc: what a backbone without an account is given once.

    Raises:
        LedgerError: the folder is in use, of another ledger, or cannot be used.
    """
    return Store(
        folder,
        LedgerIdentity(network=network, ledger=identity.peer_id, market=market),
        sign=identity.sign,
        wall_us=clock.wall_us,
        settings=StoreSettings(policy=GrantPolicy(opening_credit_uc=opening_credit_uc)),
    )


class LedgerService:
    """Serves a store over a node. `run` ends when the node closes or is cancelled."""

    def __init__(
        self, node: Node, store: Store, *, paid_us: int = PAID_SPAN_US
    ) -> None:
        """Take a node to serve on and a store, which the caller closes.

        `paid_us` is how often the market is told what was paid for.
        """
        self._node = node
        self._store = store
        self._flying_bytes = 0
        self._told = ""
        self._auditor = Auditor(store, self._send)
        market = PeerId(store.owner.market)
        self._standby = StandbyDesk(store, market, self._send)
        self._paid = PaidRounds(store, market, self._send, paid_us)
        self._landed = trio.Event()
        self._inboxes = [
            Inbox[Request](
                max_items=_MAX_WAITING,
                max_of_peer=_MAX_OF_PEER,
                max_bytes=_MAX_WAITING_BYTES,
            )
            for _ in range(_N_WORKERS)
        ]

    async def run(self) -> None:
        """Serve until the node closes."""
        async with trio.open_nursery() as nursery:
            for inbox in self._inboxes:
                nursery.start_soon(self._work, inbox)
            nursery.start_soon(self._auditor.run)
            nursery.start_soon(self._every, _TEND_PERIOD_S, self._store.tend)
            nursery.start_soon(self._every, _RETAIN_PERIOD_S, self._store.retain)
            nursery.start_soon(self._standby.run)
            nursery.start_soon(self._paid.run)
            try:
                async for event in self._node.arrivals():
                    if isinstance(event, Arrived):
                        self._take(event.peer, event.message)
            finally:
                nursery.cancel_scope.cancel()

    def _take(self, peer: PeerId, message: Message) -> None:
        """Queue a request with the worker of its peer; ignore everything else."""
        if self._auditor.take(peer, message) or self._standby.take(peer, message):
            return
        if not isinstance(message, Request):
            return
        inbox = self._inboxes[peer[0] % len(self._inboxes)]
        if not inbox.put(peer, message, _size(message)):
            self._send(peer, _refusal(message, "busy"))

    async def _work(self, inbox: Inbox[Request]) -> None:
        async for peer, request in inbox:
            while self._flying_bytes > _MAX_FLYING_BYTES:
                await self._landed.wait()
            try:
                match request:
                    case wire.GrantRequest():
                        await self._grant(peer, request)
                    case wire.File():
                        await self._file(peer, request)
            except LedgerError as error:
                _LOG.warning("request of %s not taken: %s", short_id(peer), error)
                self._send(peer, _refusal(request, str(error)))

    async def _grant(self, peer: PeerId, request: wire.GrantRequest) -> None:
        order = GrantOrder(
            request=request.request,
            backbone=peer,
            worker=request.worker,
            ceiling_uc=request.ceiling_uc,
            price_table=request.price_table,
            price_signature=request.price_signature,
        )

        def answer(issued: IssuedGrant) -> Message:
            return wire.Grant(
                request=request.request,
                grant=issued.raw,
                signature=issued.signature,
                error="",
            )

        self._answer_when_done(peer, request, self._store.grant(order), answer)

    async def _file(self, peer: PeerId, request: wire.File) -> None:
        signed = SignedVoucher(
            raw=request.voucher,
            worker_signature=request.worker_signature,
            backbone_signature=request.backbone_signature,
        )
        # Two signatures are checked here, in a thread: it lets go of the interpreter.
        future = await trio.to_thread.run_sync(
            self._store.file, signed, request.leaves, peer
        )

        def answer(filed: Filed) -> Message:
            if filed.status == FiledStatus.REJECTED:
                _LOG.info(
                    "voucher %s of %s rejected: %s, %s",
                    short_id(filed.voucher_hash),
                    short_id(peer),
                    filed.reason,
                    filed.detail,
                )
            return wire.Filed(
                voucher_hash=filed.voucher_hash,
                status=int(filed.status),
                reason=": ".join(filter(None, (filed.reason, filed.detail)))[
                    :_MAX_TEXT
                ],
            )

        self._answer_when_done(peer, request, future, answer)

    def _answer_when_done(
        self,
        peer: PeerId,
        request: Request,
        future: Future[T],
        answer: Callable[[T], Message],
    ) -> None:
        """Send the answer from the trio thread once the commit is on the disk."""
        token = trio.lowlevel.current_trio_token()
        self._flying_bytes += _size(request)

        def reply() -> None:
            self._flying_bytes -= _size(request)
            self._landed.set()
            self._landed = trio.Event()
            error = future.exception()
            if error is None:
                self._send(peer, answer(future.result()))
                return
            if not isinstance(error, LedgerError):
                error = LedgerError("the ledger failed, see its log")
            self._tell(f"request of {short_id(peer)} failed: {error}")
            self._send(peer, _refusal(request, str(error)))

        def done(_: Future[T]) -> None:
            try:
                token.run_sync_soon(reply)
            except trio.RunFinishedError:
                _LOG.debug("an answer came after the end")

        future.add_done_callback(done)

    def _tell(self, trouble: str, level: int = logging.WARNING) -> None:
        """Log it, unless it was the last thing logged: who is refused asks again."""
        if trouble != self._told:
            self._told = trouble
            _LOG.log(level, "%s", trouble)

    def _send(self, peer: PeerId, message: Message) -> None:
        try:
            self._node.send(peer, message)
        except (SendQueueFull, NodeClosed, UnsendableMessage) as error:
            # The peer asks again: nothing depends on this answer arriving.
            _LOG.warning("answer to %s not sent: %s", short_id(peer), error)

    async def _every(self, period_s: float, chore: Callable[[], object]) -> None:
        """Do what is due by itself, now and then, in a thread; it never ends us."""
        while True:
            try:
                # A thread that is left behind ends when the store is closed.
                await trio.to_thread.run_sync(chore, abandon_on_cancel=True)
            except (StoreBusy, StoreUnavailable, LogUnavailable) as error:
                self._tell(f"what is due was put off: {error}")
            except (LedgerError, OSError) as error:
                trouble = f"the ledger's own books need a look: {error}"
                self._tell(trouble, logging.ERROR)
            except Exception:  # noqa: BLE001  a bug in a chore must not end the serving
                _LOG.exception("a chore of the ledger failed")
            await trio.sleep(period_s)


def _size(request: Request) -> int:
    match request:
        case wire.GrantRequest():
            return len(request.price_table)
        case wire.File():
            return len(request.voucher) + len(request.leaves)


def _refusal(request: Request, reason: str) -> Message:
    match request:
        case wire.GrantRequest():
            return wire.Grant(
                request=request.request,
                grant=b"",
                signature=b"",
                error=reason[:_MAX_TEXT],
            )
        case wire.File():
            return wire.Filed(
                voucher_hash=voucher_hash(request.voucher),
                status=int(FiledStatus.RETRY),
                reason=reason[:_MAX_TEXT],
            )
