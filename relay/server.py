"""The relay server: one port, many connections, one switch.

    await nursery.start(partial(serve, config, wall_us=..., pages=...))

Each connection is one task of `connections`; a bug in one is logged and ends that one
only. Cancelling `serve` drains: listeners close, each peer is told RESTARTING with a
time of its own to come back, what waits leaves, all within `drain_s`.
"""

import contextlib
import errno
import logging
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import SystemRandom
from typing import Final

import trio

from relay.config import RelayConfig, check_config, quarter_of_memory
from relay.connection import PeerConnection
from relay.doorway import Doorway
from relay.endpoint import Endpoint
from relay.errors import KnockRefused
from relay.forwarding import Switch
from relay.frame_types import GoneReason, Restarting
from relay.frames import encode_frame
from relay.handshake import Gatekeeper
from relay.keys import PeerId
from relay.limits import AddressGate, keep_alive_of
from relay.listening import open_listeners
from relay.load import Load, Moment
from relay.metrics import Counters, Gauges, render_metrics
from relay.page_sockets import StatusSource, Viewers
from relay.pages import PageHandler, Pages
from relay.queues import QueueBudget
from relay.streams import TcpStream
from relay.tls import SelfSigned, server_context

__all__ = ["RunningRelay", "serve"]

_LOG = logging.getLogger("p2pmoe.relay")
_random: Final = SystemRandom().random
_TICK_S: Final = 0.5
_STOPPED_S: Final = 2.0  # a tick that much too late: we were stopped, or suspended
_JOINS_PER_S: Final = 50.0
_MAX_ACCEPTS: Final = 64
_INSIDE: Final = "127.0.0.1"
_NO_RESOURCES: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRelay:
    """A relay that takes connections."""

    relay_id: PeerId
    addresses: tuple[tuple[str, int], ...]
    secure: bool
    path: str
    switch: Switch
    inside: Endpoint | None = None

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self.addresses[0][1]

    @property
    def counters(self) -> Counters:
        """What it counted so far."""
        return self.switch.counters

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
        self.switch = Switch(QueueBudget(max_bytes=budget))
        self._load = Load(_moment(), max_queued_bytes=budget)
        self._config = config
        self._unready = unready
        self._draining = False
        self._n_handshakes = 0
        self._n_connections = 0
        self._all_gone = trio.Event()
        self._gate = AddressGate(config.gate, trio.current_time())
        tls = config.tls
        self._pages = Pages(
            pages,
            metrics=self._metrics,
            unready=self._why_unready,
            metrics_token=config.metrics_token,
            status=None if self.viewers is None else self.viewers.snapshot,
        )
        self._wall_us = wall_us
        self.front_door = self._doorway(
            None if tls is None else server_context(tls, config.identity),
            config.hosts,
            trust_forwarded=config.behind_front,
        )
        self.connections_scope = trio.CancelScope(shield=True)

    def inner_door(self) -> Doorway:
        """Make the doorway of the inside listener: the relay's own certificate."""
        context = server_context(SelfSigned(), self._config.identity)
        return self._doorway(context, frozenset(), trust_forwarded=False)

    def _doorway(
        self,
        context: ssl.SSLContext | None,
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
            ),
            pages=self._pages,
            wall_us=self._wall_us,
            tls=context,
            descriptor=config.descriptor,
            path=config.path,
            trust_forwarded=trust_forwarded,
            unready=self._why_draining,
            viewers=self.viewers,
        )

    def _why_draining(self) -> str:
        return "the relay is going down" if self._draining else ""

    def _why_unready(self) -> str:
        return self._why_draining() or self._unready()

    def _gauges(self) -> Gauges:
        registry = self.switch.registry
        return Gauges(
            peers=len(registry.active),
            parked=len(registry.parked),
            connections=self._n_connections,
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

    async def hold_connections(
        self, task_status: trio.TaskStatus[trio.Nursery]
    ) -> None:
        """Keep the nursery of all connections, shielded until the drain is over."""
        with self.connections_scope:
            async with trio.open_nursery() as connections:
                task_status.started(connections)
                await trio.sleep_forever()

    async def accept_loop(
        self, listener: socket.socket, door: Doorway, connections: trio.Nursery
    ) -> None:
        while True:
            await trio.lowlevel.wait_readable(listener)
            for _ in range(_MAX_ACCEPTS):
                try:
                    accepted, address = listener.accept()
                except BlockingIOError:
                    break
                except OSError as exc:
                    if exc.errno in _NO_RESOURCES:
                        _LOG.warning("cannot accept connections: %s", exc)
                        await trio.sleep(0.1)
                        break
                    continue
                self._on_accepted(accepted, str(address[0]), door, connections)

    def _on_accepted(
        self,
        accepted: socket.socket,
        remote: str,
        door: Doorway,
        connections: trio.Nursery,
    ) -> None:
        full = self._n_handshakes >= self._config.max_handshakes
        if full or not self._gate.enter(remote, trio.current_time()):
            self.switch.counters.refused["handshakes" if full else "address rate"] += 1
            accepted.close()
            return
        self._n_handshakes += 1
        connections.start_soon(self._serve_socket, accepted, remote, door)

    async def _serve_socket(
        self, accepted: socket.socket, remote: str, door: Doorway
    ) -> None:
        """Root of one connection's task."""
        transport = TcpStream(accepted)
        left_gate = False

        def leave_gate() -> None:
            nonlocal left_gate
            if not left_gate:
                left_gate = True
                self._n_handshakes -= 1
                self._gate.leave(remote)

        self._n_connections += 1
        try:
            guest = await door.open(transport, remote, leave_gate)
            if guest is not None:
                peer = self.switch.admit(
                    guest.admitted,
                    keep_alive_of(guest.admitted.rate_class, _random()),
                    trio.current_time(),
                )
                await PeerConnection(guest, peer, self.switch).run(guest.early)
        except KnockRefused as exc:
            self.switch.counters.refused[exc.cause] += 1
            _LOG.info("connection from %s refused: %s", remote, exc)
        except Exception:  # noqa: BLE001 - root of a task
            # A bug, or a page handler's: it ends this connection and no other.
            self.switch.counters.refused["internal error"] += 1
            _LOG.exception("connection from %s failed", remote)
        finally:
            leave_gate()
            transport.close()
            self._n_connections -= 1
            if not self._n_connections:
                self._all_gone.set()

    async def keep_time(self) -> None:
        async with trio.open_nursery() as nursery:
            if self.viewers is not None:
                nursery.start_soon(self.viewers.run)
            while True:
                due = trio.current_time() + _TICK_S
                await trio.sleep_until(due)
                now = trio.current_time()
                if now - due > _STOPPED_S:
                    self.switch.excuse(now)
                self.switch.tick(now)

    async def drain(self) -> None:
        """Tell all peers to come back later, and let what waits leave."""
        self._draining = True
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
            if self._n_connections:
                self._all_gone = trio.Event()
                await self._all_gone.wait()


def _inside_endpoint(
    config: RelayConfig, listeners: list[socket.socket]
) -> Endpoint | None:
    if not listeners:
        return None
    url = f"wss://{_INSIDE}:{listeners[0].getsockname()[1]}{config.path}"
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
            path=config.path,
            switch=server.switch,
            inside=_inside_endpoint(config, inner),
        )
        async with trio.open_nursery() as nursery:
            connections = await nursery.start(server.hold_connections)
            try:
                async with trio.open_nursery() as loops:
                    for listener in listeners:
                        loops.start_soon(
                            server.accept_loop, listener, server.front_door, connections
                        )
                    for listener in inner:
                        loops.start_soon(
                            server.accept_loop,
                            listener,
                            server.inner_door(),
                            connections,
                        )
                    loops.start_soon(server.keep_time)
                    task_status.started(running)
            finally:
                opened.close()
                with trio.CancelScope(shield=True):
                    await server.drain()
                server.connections_scope.cancel()
