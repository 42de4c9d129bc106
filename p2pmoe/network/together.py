"""Market and ledger in the relay's own process, over its inside listener.

Loaded only where they run: a relay alone needs no database.
"""

import contextlib
import functools
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

import trio

from mobile_worker.clock import Clock
from mobile_worker.shards.desk import BlobDesk
from p2pmoe.ledgerd.view import LedgerView
from p2pmoe.market.book import Book
from p2pmoe.market.price import PriceSettings
from p2pmoe.market.shard_holders import seek_shard
from p2pmoe.network.blob_filling import BlobFilling
from p2pmoe.network.folder import OperatorFolder, Service
from p2pmoe.network.network import Network
from p2pmoe.network.services import (
    LedgerChoices,
    Membership,
    run_ledger,
    run_market,
)
from p2pmoe.network.status import NetworkStatus
from relay.endpoint import Endpoint
from relay.keys import PeerId
from relay.page_sockets import StatusSource
from relay.pages import PageHandler
from relay.tokens import Role

if TYPE_CHECKING:
    from mobile_worker.session.identity import Identity

__all__ = ["Together"]

_ROLES = {Service.MARKET: Role.MARKET, Service.LEDGER: Role.LEDGER}
_MINUTE_S = 60.0


class Together:
    """The two services of a folder, their identities locked until `held` is closed.

    Raises:
        IdentityInUse: another process runs a service of this folder.
        IdentityError, FolderUnusable: a file cannot be used.
    """

    def __init__(
        self,
        folder: OperatorFolder,
        clock: Clock,
        held: contextlib.ExitStack,
        *,
        opening_credit_uc: int,
        prices: PriceSettings,
    ) -> None:
        self._filling: BlobFilling | None = None
        self._folder = folder
        self._clock = clock
        self._opening_credit_uc = opening_credit_uc
        self._prices = prices
        self._status: NetworkStatus | None = None
        self._view = LedgerView(clock)
        self._identities: dict[Service, Identity] = {}
        for service in Service:
            identity = folder.identity(service)
            held.callback(identity.release)
            self._identities[service] = identity

    @property
    def pages(self) -> Mapping[str, PageHandler]:
        """The ledger's pages, for the relay to answer with."""
        return self._view.pages

    def status(self, network: PeerId) -> StatusSource:
        """Return what the status page shows of this network."""
        self._status = NetworkStatus(network, self._clock.monotonic)
        return self._status.sections

    async def start(
        self,
        nursery: trio.Nursery,
        network: Network,
        inside: Endpoint,
        filling: BlobFilling | None = None,
    ) -> None:
        """Start market and ledger in `nursery`; return once both are up.

        `filling` is what brings shards into the relay's folder, by what they know.
        """
        self._filling = filling
        if self._filling is not None:
            nursery.start_soon(self._filling.run)
        members = {
            service: Membership(
                endpoint=inside,
                network=network.network_id,
                token=network.service_token(identity.peer_id, _ROLES[service]),
                identity=identity,
            )
            for service, identity in self._identities.items()
        }
        await nursery.start(
            functools.partial(
                run_market,
                members[Service.MARKET],
                self._folder.market_memory,
                clock=self._clock,
                prices=self._prices,
                on_book=self._opened,
            )
        )
        await nursery.start(
            functools.partial(
                run_ledger,
                members[Service.LEDGER],
                self._folder.ledger,
                clock=self._clock,
                choices=LedgerChoices(
                    opening_credit_uc=self._opening_credit_uc,
                    paid_every_s=min(_MINUTE_S, self._prices.epoch_s / 2),
                ),
                on_store=self._view.attach,
            )
        )

    def _opened(self, book: Book, desk: BlobDesk) -> None:
        """Show what the market knows, and fill the relay's folder of shards by it."""
        if self._status is not None:
            self._status.attach(book)
        if self._filling is not None:
            chance = random.SystemRandom()
            self._filling.attach(
                lambda digest: seek_shard(book.roster, book.leases, digest, chance),
                desk,
            )
