"""Market and ledger as processes: a node on the relay, and the service over it.

Both are ordinary peers with identities of their own. Each checks that the network's
signed descriptor names it: a service that nobody would talk to is a mistake in the
configuration, said at once.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import trio

from ledger.store import Store
from mobile_worker.arithmetic.self_test_digest import SELF_TEST_DIGEST
from mobile_worker.clock import Clock
from mobile_worker.links import Node, NodeSettings, open_node
from mobile_worker.session.descriptor import NetworkDescriptor
from mobile_worker.session.identity import Identity
from mobile_worker.shards.desk import BlobDesk
from p2pmoe.errors import ConfigurationError
from p2pmoe.ledgerd.control import serve_control
from p2pmoe.ledgerd.paid_rounds import PAID_SPAN_US
from p2pmoe.ledgerd.service import LedgerService, open_store
from p2pmoe.market.book import Book, MarketSettings
from p2pmoe.market.price import PriceSettings
from p2pmoe.market.pricing.memory import PRICES_FILE, read_models
from p2pmoe.market.remembered import read_remembered
from p2pmoe.market.service import MarketService, ServiceSettings
from p2pmoe.network.folder import Service
from p2pmoe.network.invite import Invite
from relay.endpoint import Endpoint
from relay.keys import PeerId, short_id
from relay.tokens import Role

__all__ = [
    "LedgerChoices",
    "Membership",
    "membership_of",
    "run_ledger",
    "run_market",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """How a service joins: where, as whom, by which right. `token` is secret.

    further: more relays of the network, of equal worth.
    """

    endpoint: Endpoint
    network: PeerId
    token: bytes
    identity: Identity
    further: tuple[Endpoint, ...] = ()

    def settings(self, role: Role) -> NodeSettings:
        """Return the settings of a node that joins so."""
        return NodeSettings(
            identity=self.identity,
            role=role,
            endpoints=(self.endpoint, *self.further),
            token=self.token,
            network=self.network,
        )


def membership_of(invite: Invite, identity: Identity) -> Membership:
    """Return the membership of an invited service."""
    return Membership(
        endpoint=invite.relay,
        further=invite.relays[1:],
        network=invite.network,
        token=invite.token,
        identity=identity,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerChoices:
    """The operator's choices about a ledger.

    opening_credit_uc: what a backbone without an account is given once.
    paid_every_s: how often the market is told which experts were paid for.
    """

    opening_credit_uc: int = 0
    paid_every_s: float = PAID_SPAN_US / 1_000_000


async def run_market(
    membership: Membership,
    memory_file: Path,
    *,
    clock: Clock,
    prices: PriceSettings | None = None,
    on_book: Callable[[Book, BlobDesk], None] | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run the market until cancelled; started once the relay has let it in.

    `on_book` is given what the market knows, to be shown and not changed, and the desk
    by which peers are asked for shards.

    Raises:
        MemoryFileBroken: the memory file cannot be used.
        ConfigurationError: the network names another market.
        RelayError: the relay cannot be reached at first, or refuses.
    """
    remembered = read_remembered(memory_file)
    folder = memory_file.parent
    settings = MarketSettings(
        network=membership.network,
        sign=membership.identity.sign,
        tie_salt=secrets.token_bytes(32),
        first_serial=clock.wall_us(),
        prices=prices or PriceSettings(),
        models=read_models(folder / PRICES_FILE),
    )
    async with open_node(membership.settings(Role.MARKET), clock=clock) as node:
        named = _check_named(node, Service.MARKET, lambda found: found.market)
        book = Book(settings, remembered)
        service = MarketService(
            node,
            book,
            clock,
            ServiceSettings(
                self_test=SELF_TEST_DIGEST,
                memory_file=memory_file,
                ledger=named.ledger,
            ),
        )
        if on_book is not None:
            on_book(book, service.desk)
        task_status.started()
        await service.run()


async def run_ledger(
    membership: Membership,
    folder: Path,
    *,
    clock: Clock,
    choices: LedgerChoices | None = None,
    on_store: Callable[[Store], None] | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run the ledger until cancelled; started once the relay has let it in.

    `on_store` is given the store while it is open, to answer questions with.

    Raises:
        LedgerError: the folder cannot be used.
        ConfigurationError: the network names another ledger, or no market.
        RelayError: the relay cannot be reached at first, or refuses.
    """
    choices = choices or LedgerChoices()
    async with open_node(membership.settings(Role.LEDGER), clock=clock) as node:
        named = _check_named(node, Service.LEDGER, lambda found: found.ledger)
        if named.market is None:
            raise ConfigurationError(
                "the network names no market, so there is no price"
            )
        store = open_store(
            folder,
            membership.identity,
            network=membership.network,
            market=named.market,
            clock=clock,
            opening_credit_uc=choices.opening_credit_uc,
        )
        if on_store is not None:
            on_store(store)
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(serve_control, store)
                task_status.started()
                paid_us = round(choices.paid_every_s * 1_000_000)
                await LedgerService(node, store, paid_us=paid_us).run()
                nursery.cancel_scope.cancel()
        finally:
            store.close()


def _check_named(
    node: Node,
    service: Service,
    named: Callable[[NetworkDescriptor], PeerId | None],
) -> NetworkDescriptor:
    descriptor = node.descriptor
    if descriptor is None:
        raise ConfigurationError("the relay hands out no network descriptor")
    expected = named(descriptor)
    if expected != node.peer_id:
        other = "nobody" if expected is None else short_id(expected)
        raise ConfigurationError(
            f"the network's {service} is {other}, not {short_id(node.peer_id)}",
            advice=f"use the folder with that {service}.identity, or start the relay "
            f"with --{service} {node.peer_id.hex()}",
        )
    return descriptor
