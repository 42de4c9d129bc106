"""An operator's network in one process: relay, market and ledger.

Market and ledger are ordinary peers: they reach the relay over its inside listener on
loopback and could run anywhere else (`--only`, `p2pmoe market`, `p2pmoe ledgerd`). The
order is: relay, market and ledger, the invite, and then the caller is told.
"""

import contextlib
import functools
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import trio

from mobile_worker.clock import Clock
from mobile_worker.session.identity import Identity
from p2pmoe.errors import ConfigurationError
from p2pmoe.market.price import DEFAULT_BASE_UC
from p2pmoe.network.folder import OperatorFolder, Service
from p2pmoe.network.invite import Invite, write_invite
from p2pmoe.network.network import Network
from p2pmoe.network.services import Membership, run_ledger, run_market
from p2pmoe.network.status import NetworkStatus
from relay.config import RelayConfig
from relay.endpoint import Endpoint, parse_endpoint
from relay.keys import PeerId, load_or_create_key
from relay.server import RunningRelay, serve
from relay.tls import SelfSigned, TlsFiles
from relay.tokens import Role

__all__ = ["OperatorConfig", "Started", "run_operator"]

_WILDCARDS = (None, "0.0.0.0", "::")  # noqa: S104 - recognised, not bound
_ROLES = {Service.MARKET: Role.MARKET, Service.LEDGER: Role.LEDGER}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConfig:
    """What `p2pmoe relay` was asked for.

    host None listens on all addresses. tls None is for a front (`behind_front`).
    only: market and ledger run elsewhere, under the ids given or those of the folder.
    opening_credit_uc: what the ledger gives a backbone without an account, once.
    neutral_page: there is no status page, and / says nothing.
    """

    folder: Path
    host: str | None
    port: int
    tls: TlsFiles | SelfSigned | None
    behind_front: bool = False
    open: bool = False
    only: bool = False
    public_url: str | None = None
    market: PeerId | None = None
    ledger: PeerId | None = None
    opening_credit_uc: int = 0
    base_uc: int = DEFAULT_BASE_UC
    neutral_page: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot work, naming the option."""
        if self.behind_front and self.public_url is None:
            raise ConfigurationError(
                "behind a front the relay does not know its own address",
                advice="name it with --public-url wss://HOST/relay",
            )
        if not self.only and (self.market or self.ledger):
            raise ConfigurationError(
                "--market and --ledger name services that run elsewhere",
                advice="add --only, or leave them out",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What is up: the relay, where members reach it, and the file that lets them in."""

    relay: RunningRelay
    endpoint: Endpoint
    invite: Path
    market: PeerId
    ledger: PeerId


async def run_operator(
    config: OperatorConfig, *, clock: Clock, started: Callable[[Started], None]
) -> None:
    """Run the network's services until cancelled; `started` is called once all are up.

    Raises:
        P2pmoeError, RelayError, LedgerError, WorkerError: with what a person can do.
    """
    folder = OperatorFolder(config.folder)
    network = Network.load_or_create(folder.network_key)
    with contextlib.ExitStack() as held:
        identities = {} if config.only else _identities(folder, held)
        market = config.market or folder.service_id(Service.MARKET)
        ledger = config.ledger or folder.service_id(Service.LEDGER)
        descriptor = network.descriptor(market, ledger)
        status = NetworkStatus(network.network_id, clock.monotonic)
        async with trio.open_nursery() as nursery:
            relay: RunningRelay = await nursery.start(
                functools.partial(
                    serve,
                    _relay_config(config, folder, network, descriptor.encoded),
                    wall_us=clock.wall_us,
                    status=None if config.neutral_page else status.sections,
                )
            )
            if relay.inside is not None:
                members = {
                    service: Membership(
                        endpoint=relay.inside,
                        network=network.network_id,
                        token=network.service_token(identity.peer_id, _ROLES[service]),
                        identity=identity,
                    )
                    for service, identity in identities.items()
                }
                await _start_services(nursery, config, members, clock, status)
            endpoint = _public_endpoint(config, relay)
            token = network.member_token()
            invite = Invite(relays=(endpoint,), network=network.network_id, token=token)
            write_invite(folder.invite, invite)
            started(
                Started(
                    relay=relay,
                    endpoint=endpoint,
                    invite=folder.invite,
                    market=market,
                    ledger=ledger,
                )
            )


def _identities(
    folder: OperatorFolder, held: contextlib.ExitStack
) -> dict[Service, Identity]:
    """Lock the services' identities before anything is opened."""
    identities = {}
    for service in Service:
        identities[service] = folder.identity(service)
        held.callback(identities[service].release)
    return identities


def _relay_config(
    config: OperatorConfig, folder: OperatorFolder, network: Network, descriptor: bytes
) -> RelayConfig:
    return RelayConfig(
        identity=load_or_create_key(folder.relay_key),
        host=config.host,
        port=config.port,
        tls=config.tls,
        behind_front=config.behind_front,
        network=None if config.open else network.network_id,
        open=config.open,
        descriptor=descriptor,
        inside=not config.only,
    )


async def _start_services(
    nursery: trio.Nursery,
    config: OperatorConfig,
    members: Mapping[Service, Membership],
    clock: Clock,
    status: NetworkStatus,
) -> None:
    folder = OperatorFolder(config.folder)
    await nursery.start(
        functools.partial(
            run_market,
            members[Service.MARKET],
            folder.market_memory,
            clock=clock,
            base_uc=config.base_uc,
            on_book=status.attach,
        )
    )
    await nursery.start(
        functools.partial(
            run_ledger,
            members[Service.LEDGER],
            folder.ledger,
            clock=clock,
            opening_credit_uc=config.opening_credit_uc,
        )
    )


def _public_endpoint(config: OperatorConfig, relay: RunningRelay) -> Endpoint:
    """Return the address that members are given, the relay's id pinned."""
    if config.public_url is not None:
        given = parse_endpoint(config.public_url)
        return Endpoint(given.url, relay.relay_id)
    host = config.host
    if host is None or host in _WILDCARDS:
        host = socket.gethostname()
    return relay.endpoint(host)
