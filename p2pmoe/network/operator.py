"""An operator's network in one process: relay, market and ledger.

Market and ledger are ordinary peers: they reach the relay over its inside listener on
loopback and could run anywhere else (`--only`, `p2pmoe market`, `p2pmoe ledgerd`). The
order is: relay, market and ledger, the invite, and then the caller is told. SIGHUP has
limits, revocations, relay map and certificate read anew (see `live_files`).
"""

import contextlib
import dataclasses
import functools
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from mobile_worker.clock import Clock
from mobile_worker.contribute.memory_groups import free_in_groups
from p2pmoe.errors import ConfigurationError
from p2pmoe.market.price import PriceSettings
from p2pmoe.network.acme.settings import AcmeSettings
from p2pmoe.network.blob_filling import open_blobs
from p2pmoe.network.errors import InviteBroken
from p2pmoe.network.folder import OperatorFolder, locked
from p2pmoe.network.hosted import HostedNetwork, hosted_network
from p2pmoe.network.invite import MAX_RELAYS, Invite, read_invite, write_invite
from p2pmoe.network.invites import member_token
from p2pmoe.network.live_files import LiveFiles
from p2pmoe.network.running import on_hangup
from relay.config import RelayConfig, quarter_of_memory
from relay.endpoint import Endpoint, parse_endpoint
from relay.errors import RelayError
from relay.fronts import ProxyNetwork
from relay.keys import PeerId, load_or_create_key, short_id
from relay.live import LiveSettings
from relay.page_sockets import StatusSource
from relay.server import RunningRelay, serve
from relay.tls import SelfSigned, TlsFiles

if TYPE_CHECKING:
    from p2pmoe.network.together import Together

__all__ = ["OperatorConfig", "Started", "run_operator"]

_LOG = logging.getLogger("p2pmoe.network")
_PATH: Final = "/relay"
_LEAST_QUEUED: Final = 16 << 20  # a queue or two of hubs
_WILDCARDS = (None, "0.0.0.0", "::")  # noqa: S104 - recognised, not bound


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConfig:
    """What `p2pmoe relay` was asked for.

    host None listens on all addresses. tls None is for a front (`behind_front`), or for
    `acme`: the certificate is fetched before the relay is up, and kept renewed.
    only: market and ledger run elsewhere, under the ids given or those of the folder.
    opening_credit_uc: what the ledger gives a backbone without an account, once.
    neutral_page: there is no status page, and / says nothing. metrics_token: the secret
    that opens /metrics to others than loopback; empty for none. limits: a file of
    limits by rate class. trusted_proxies: fronts elsewhere whose word on a peer's
    address is believed. shard: this process serves the path /relay/<shard> alone.
    blob_bytes: room for shards that are handed out under /blob/; 0 hands out none.
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
    prices: PriceSettings = dataclasses.field(default_factory=PriceSettings)
    neutral_page: bool = False
    metrics_token: str = dataclasses.field(default="", repr=False)
    limits: Path | None = None
    trusted_proxies: tuple[ProxyNetwork, ...] = ()
    shard: int | None = None
    acme: AcmeSettings | None = None
    blob_bytes: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot work, naming the option.

        Raises:
            ConfigurationError: options that contradict each other.
            EndpointError: the public URL is no relay's.
        """
        if self.behind_front and self.public_url is None:
            raise ConfigurationError(
                "behind a front the relay does not know its own address",
                advice="name it with --public-url wss://HOST/relay",
            )
        if self.public_url is not None:
            parse_endpoint(self.public_url)
        if not self.only and (self.market or self.ledger):
            raise ConfigurationError(
                "--market and --ledger name services that run elsewhere",
                advice="add --only, or leave them out",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What is up: the relay, where members reach it, and the file that lets them in.

    invite: None without the network's key. market, ledger: None if it has none.
    """

    relay: RunningRelay
    endpoint: Endpoint
    invite: Path | None
    market: PeerId | None
    ledger: PeerId | None


async def run_operator(
    config: OperatorConfig, *, clock: Clock, started: Callable[[Started], None]
) -> None:
    """Run the network's services until cancelled; `started` is called once all are up.

    Raises:
        P2pmoeError, RelayError, LedgerError, WorkerError: with what a person can do.
    """
    folder = OperatorFolder(config.folder)
    with contextlib.ExitStack() as held:
        together = None if config.only else _together(config, folder, clock, held)
        hosted = hosted_network(folder, config.market, config.ledger, only=config.only)
        files = LiveFiles(
            folder=folder,
            network=hosted.network_id,
            limits=config.limits,
            trusted_proxies=config.trusted_proxies,
        )
        live = files.read()
        blobs = open_blobs(folder.blobs, config.blob_bytes)  # with keys beside it
        source = _status_alone if together is None else together.status
        async with trio.open_nursery() as nursery:
            if config.acme is not None:
                files_of_acme = await _start_acme(nursery, config.acme, folder, clock)
                config = dataclasses.replace(config, tls=files_of_acme)
            relay: RunningRelay = await nursery.start(
                functools.partial(
                    serve,
                    _relay_config(config, folder, hosted, live),
                    wall_us=clock.wall_us,
                    pages={**blobs.pages, **(together.pages if together else {})},
                    status=None if config.neutral_page else source(hosted.network_id),
                )
            )
            endpoint = _public_endpoint(config, relay)
            invite = functools.partial(_invite, folder, hosted, endpoint, clock)
            await nursery.start(
                on_hangup, functools.partial(_reload, files, relay, invite)
            )
            if together is not None and hosted.signer and relay.inside is not None:
                await together.start(
                    nursery, hosted.signer, relay.inside, blobs.filling
                )
            started(
                Started(
                    relay=relay,
                    endpoint=endpoint,
                    invite=invite(relay.live),
                    market=hosted.descriptor.market,
                    ledger=hosted.descriptor.ledger,
                )
            )


async def _start_acme(
    nursery: trio.Nursery, settings: AcmeSettings, folder: OperatorFolder, clock: Clock
) -> TlsFiles:
    """Have a certificate and keep it renewed; return its files."""
    # Few relays do it, and a small host need not load it.
    from p2pmoe.network.acme.service import AcmeCertificate, run_acme  # noqa: PLC0415

    certificate = AcmeCertificate(settings=settings, folder=folder.acme, clock=clock)
    files: TlsFiles = await nursery.start(run_acme, certificate)
    return files


def _together(
    config: OperatorConfig,
    folder: OperatorFolder,
    clock: Clock,
    held: contextlib.ExitStack,
) -> "Together":
    """Lock market and ledger for this process, before anything is opened."""
    # A relay alone needs no database, and does not load one.
    from p2pmoe.network.together import Together  # noqa: PLC0415

    return Together(
        folder,
        clock,
        held,
        opening_credit_uc=config.opening_credit_uc,
        prices=config.prices,
    )


def _relay_config(
    config: OperatorConfig,
    folder: OperatorFolder,
    hosted: HostedNetwork,
    live: LiveSettings,
) -> RelayConfig:
    shard = config.shard
    key = folder.relay_key if shard is None else folder.shard_key(shard)
    return RelayConfig(
        identity=load_or_create_key(key),
        host=config.host,
        port=config.port,
        tls=config.tls,
        behind_front=config.behind_front,
        network=None if config.open else hosted.network_id,
        open=config.open,
        descriptor=hosted.descriptor.encoded,
        market=hosted.descriptor.market,
        path=_PATH,
        shard=config.shard,
        live=live,
        inside=not config.only,
        metrics_token=config.metrics_token,
        max_queued_bytes=_queued_bytes(),
    )


def _queued_bytes() -> int:
    """Return what all queues may take: of a container's memory, not of its host's."""
    free = free_in_groups()
    if free is None:
        return quarter_of_memory()
    return max(_LEAST_QUEUED, min(quarter_of_memory(), free // 4))


def _invite(
    folder: OperatorFolder,
    hosted: HostedNetwork,
    endpoint: Endpoint,
    clock: Clock,
    live: LiveSettings,
) -> Path | None:
    """Write what members are given: this relay, then the others of the map.

    Its token is another one if the last was revoked.
    """
    if hosted.signer is None:
        return None
    entries = () if live.relay_map is None else live.relay_map.entries
    others = [e.endpoint for e in entries if not e.draining]
    token = member_token(
        folder, hosted.signer, live.revoked.tokens, now_us=clock.wall_us()
    )
    with locked(folder):
        others += _sister_shards(folder, hosted.network_id, endpoint)
        named = {each.url: each for each in (endpoint, *others)}
        relays = (endpoint, *(e for url, e in named.items() if url != endpoint.url))
        invite = Invite(
            relays=relays[:MAX_RELAYS], network=hosted.network_id, token=token
        )
        write_invite(folder.invite, invite)
    return folder.invite


def _sister_shards(
    folder: OperatorFolder, network: PeerId, own: Endpoint
) -> tuple[Endpoint, ...]:
    """Return the other shards behind our front that the invite names already."""
    base, _, shard = own.url.rpartition("/")
    if not shard.isdecimal():
        return ()
    try:
        known = read_invite(folder.invite)
    except InviteBroken:  # or there is none yet
        return ()
    if known.network != network:
        return ()
    halves = [(each, each.url.rpartition("/")) for each in known.relays]
    return tuple(each for each, (b, _, n) in halves if b == base and n.isdecimal())


def _status_alone(network: PeerId) -> StatusSource:
    """Return the sections of a relay alone: it knows of no experts."""
    section = {"network": {"id": short_id(network)}}
    return lambda: section


def _reload(
    files: LiveFiles,
    relay: RunningRelay,
    invite: Callable[[LiveSettings], Path | None],
) -> None:
    """Take up what changed in the files, or nothing; say which, on one line.

    `invite` writes the members' invite anew, as it is by then.
    """
    try:
        live = files.read(relay.live)
        renewed = relay.tls is not None and relay.tls.renew()
    except (ConfigurationError, RelayError) as exc:
        _LOG.warning("nothing reloaded: %s", _told(exc))
        return
    applied = relay.apply(live)
    try:
        invite(live)
    except (ConfigurationError, RelayError) as exc:
        _LOG.warning("the invite stays as it was: %s", _told(exc))
    _LOG.info(
        "reloaded: %d tokens and %d peers revoked, relay map %s%s; "
        "%d peers have new limits, %d were closed%s",
        len(live.revoked.tokens),
        len(live.revoked.peers),
        live.map_version or "none",
        ", a new certificate" if renewed else "",
        applied.n_limits,
        applied.n_revoked,
        "; the map wants this relay emptied" if applied.is_draining else "",
    )


def _told(exc: ConfigurationError | RelayError) -> str:
    return f"{exc}; {exc.advice}" if exc.advice else str(exc)


def _public_endpoint(config: OperatorConfig, relay: RunningRelay) -> Endpoint:
    """Return the address that members are given, the relay's id pinned."""
    if config.public_url is not None:
        url = parse_endpoint(config.public_url).url
        if config.shard is not None and not url.endswith(relay.path):
            url = f"{url}/{config.shard}"
        return Endpoint(url, relay.relay_id)
    if config.acme is not None:
        return relay.endpoint(config.acme.domains[0])
    host = config.host
    if host is None or host in _WILDCARDS:
        host = socket.gethostname()
    return relay.endpoint(host)
