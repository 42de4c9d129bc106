"""The relay server: one port, many connections, one switch.

    await nursery.start(partial(serve, config, wall_us=..., pages=...))

What may change meanwhile is handed to `RunningRelay.apply`. Cancelling `serve` drains:
listeners close, each peer is told RESTARTING with a time of its own to come back, what
waits leaves, all within `drain_s`.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import SystemRandom
from typing import Final

import trio

from relay.accepting import Acceptor
from relay.config import RelayConfig, check_config, quarter_of_memory
from relay.doorway import Doorway
from relay.endpoint import Endpoint
from relay.forwarding import Switch
from relay.frame_types import GoneReason, Restarting
from relay.frames import encode_frame
from relay.handshake import Gatekeeper
from relay.keys import PeerId
from relay.listening import open_listeners
from relay.live import LiveSettings
from relay.load import Load, Moment
from relay.metrics import Counters, Gauges, render_metrics
from relay.page_sockets import StatusSource, Viewers
from relay.pages import PageHandler, Pages
from relay.queues import QueueBudget
from relay.server_tls import ServerTls
from relay.terms import Applied, Terms
from relay.tickets import TicketOffice
from relay.tls import SelfSigned, TlsFiles

__all__ = ["RunningRelay", "serve"]

_random: Final = SystemRandom().random
_TICK_S: Final = 0.5
_STOPPED_S: Final = 2.0  # a tick that much too late: we were stopped, or suspended
_JOINS_PER_S: Final = 50.0
_INSIDE: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRelay:
    """A relay that takes connections."""

    relay_id: PeerId
    addresses: tuple[tuple[str, int], ...]
    secure: bool
    path: str
    switch: Switch
    inside: Endpoint | None = None
    tls: ServerTls | None = None

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self.addresses[0][1]

    @property
    def counters(self) -> Counters:
        """What it counted so far."""
        return self.switch.counters

    @property
    def live(self) -> LiveSettings:
        """The settings in force of those that may change."""
        return self.switch.terms.live

    def apply(self, live: LiveSettings) -> Applied:
        """Go on by other settings; each connected peer whom they concern is told."""
        return self.switch.apply(live, trio.current_time())

    def endpoint(self, host: str) -> Endpoint:
        """Return its address for peers that reach it as `host`, with the pinned id."""
        name = f"[{host}]" if ":" in host else host
        scheme = "wss" if self.secure else "ws"
        url = f"{scheme}://{name}:{self.port}{self.path}"
        return Endpoint(url, self.relay_id)


class _Server:
    def __init__(
        self,
        config: RelayConfig,
        wall_us: Callable[[], int],
        pages: Mapping[str, PageHandler],
        unready: Callable[[], str],
        status: StatusSource | None,
    ) -> None:
        self._status = status
        self.viewers = None if status is None else Viewers(self._snapshot)
        budget = config.max_queued_bytes or quarter_of_memory()
        terms = Terms(config.live, config.identity.peer_id, config.served_path)
        self.switch = Switch(QueueBudget(max_bytes=budget), terms)
        self.acceptor = Acceptor(self.switch, config.gate, config.max_handshakes)
        self._load = Load(_moment(), max_queued_bytes=budget)
        self._config = config
        self._unready = unready
        self._draining = False
        tls = config.tls
        self.tls = None if tls is None else ServerTls(tls, config.identity)
        self._pages = Pages(
            pages,
            metrics=self._metrics,
            unready=self._why_unready,
            metrics_token=config.metrics_token,
            status=None if self.viewers is None else self.viewers.snapshot,
            relay_map=self._encoded_map,
        )
        self._wall_us = wall_us
        self.front_door = self._doorway(
            self.tls, config.hosts, trust_forwarded=config.behind_front
        )

    def inner_door(self) -> Doorway:
        """Make the doorway of the inside listener: the relay's own certificate."""
        tls = ServerTls(SelfSigned(), self._config.identity)
        return self._doorway(tls, frozenset(), trust_forwarded=False)

    def _doorway(
        self,
        tls: ServerTls | None,
        hosts: frozenset[str],
        *,
        trust_forwarded: bool,
    ) -> Doorway:
        config = self._config
        return Doorway(
            identity=config.identity,
            gatekeeper=Gatekeeper(
                relay_id=config.identity.peer_id,
                network=config.network,
                hosts=hosts,
                market=config.market,
                revoked=lambda: self._live().revoked,
            ),
            tickets=TicketOffice(config.identity.seed),
            pages=self._pages,
            wall_us=self._wall_us,
            tls=tls,
            descriptor=config.descriptor,
            path=config.served_path,
            exact_path=config.shard is not None,
            trust_forwarded=trust_forwarded,
            unready=self._why_draining,
            live=self._live,
            viewers=self.viewers,
            plain_pages=self.viewers is not None and isinstance(config.tls, SelfSigned),
        )

    def _live(self) -> LiveSettings:
        return self.switch.terms.live

    def _encoded_map(self) -> bytes:
        relay_map = self._live().relay_map
        return b"" if relay_map is None else relay_map.encoded

    def _why_draining(self) -> str:
        return "the relay is going down" if self._draining else ""

    def _why_unready(self) -> str:
        return self._why_draining() or self._unready()

    def _gauges(self) -> Gauges:
        registry = self.switch.registry
        return Gauges(
            peers=len(registry.active),
            parked=len(registry.parked),
            connections=self.acceptor.n_connections,
            queued_bytes=self.switch.budget.n_bytes,
        )

    def _metrics(self) -> str:
        return render_metrics(self.switch.counters, self._gauges())

    def _snapshot(self) -> Mapping[str, object]:
        peers = self.switch.registry.active.values()
        relay = self._load.section(
            _moment(),
            self.switch.counters,
            self._gauges(),
            [peer.role for peer in peers],
        )
        return {**(self._status() if self._status else {}), "relay": relay}

    async def keep_time(self) -> None:
        async with trio.open_nursery() as nursery:
            if self.viewers is not None:
                nursery.start_soon(self.viewers.run)
            if isinstance(self._config.tls, TlsFiles) and self.tls is not None:
                nursery.start_soon(self.tls.keep_renewed)
            while True:
                due = trio.current_time() + _TICK_S
                await trio.sleep_until(due)
                now = trio.current_time()
                if now - due > _STOPPED_S:
                    self.switch.excuse(now)
                self.switch.tick(now)

    async def drain(self) -> None:
        """Tell all peers to come back later, and let what waits leave."""
        self._draining = self.switch.is_ending = True
        if self.viewers is not None:
            self.viewers.close()
        peers = list(self.switch.registry.active.values())
        spread_ms = 1000 * len(peers) / _JOINS_PER_S
        for peer in peers:
            reconnect_in_ms = int(_random() * spread_ms)
            restarting = Restarting(reconnect_in_ms=reconnect_in_ms, try_for_ms=60_000)
            peer.outbox.notice(encode_frame(restarting))
            peer.end(GoneReason.DISCONNECTED, 1012, "the relay stops")
        with trio.move_on_after(self._config.drain_s):
            await self.acceptor.wait_all_gone()


def _inside_endpoint(
    config: RelayConfig, listeners: list[socket.socket]
) -> Endpoint | None:
    if not listeners:
        return None
    url = f"wss://{_INSIDE}:{listeners[0].getsockname()[1]}{config.served_path}"
    return Endpoint(url, config.identity.peer_id)


def _moment() -> Moment:
    return Moment(now=trio.current_time(), cpu_s=time.process_time())


def _ready() -> str:
    return ""


async def serve(
    config: RelayConfig,
    *,
    wall_us: Callable[[], int],
    pages: Mapping[str, PageHandler] | None = None,
    unready: Callable[[], str] = _ready,
    status: StatusSource | None = None,
    task_status: trio.TaskStatus[RunningRelay] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a relay until cancelled; `task_status` reports it with its real port.

    `wall_us` reads the wall clock in microseconds. `pages` maps HTTP paths to handlers;
    a path that ends in "/" is a prefix. `unready` says why /readyz is not ready, or "".
    `status` gives the sections of the status page (JSON values by name), at most once a
    second and only while somebody looks; without it / is a neutral page.

    Raises:
        ConfigError: settings that contradict each other.
        CertificateError: certificate or key cannot be used.
        ListenError: the port is in use, not permitted, or not of this host.
    """
    check_config(config)
    server = _Server(config, wall_us, pages or {}, unready, status)
    with contextlib.ExitStack() as opened:
        listeners = [
            opened.enter_context(listener)
            for listener in await open_listeners(config.host, config.port)
        ]
        inner = [
            opened.enter_context(listener)
            for listener in (await open_listeners(_INSIDE, 0) if config.inside else [])
        ]
        running = RunningRelay(
            relay_id=config.identity.peer_id,
            addresses=tuple(listener.getsockname()[:2] for listener in listeners),
            secure=config.tls is not None,
            path=config.served_path,
            switch=server.switch,
            inside=_inside_endpoint(config, inner),
            tls=server.tls,
        )
        async with trio.open_nursery() as nursery:
            acceptor = server.acceptor
            connections = await nursery.start(acceptor.hold_connections)
            doors = [(each, server.front_door) for each in listeners]
            doors += [(each, server.inner_door()) for each in inner]
            try:
                async with trio.open_nursery() as loops:
                    for listener, door in doors:
                        loops.start_soon(
                            acceptor.accept_loop, listener, door, connections
                        )
                    loops.start_soon(server.keep_time)
                    task_status.started(running)
            finally:
                opened.close()
                with trio.CancelScope(shield=True):
                    await server.drain()
                acceptor.abandon()
