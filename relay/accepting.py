"""Takes connections off the listeners and sees each one through to its end.

Each connection is one task; a bug in one is logged and ends that one only. The gate is
asked before anything is read; of a front's connection once its request was read. Where
all places for handshakes are taken, the address that holds most gives one up; where
nobody holds many, the oldest does if it has taken long: who has many addresses and says
nothing keeps nobody out.
"""

import errno
import logging
import socket
from random import SystemRandom
from typing import Final

import trio

from relay.connection import PeerConnection
from relay.doorway import Doorway
from relay.entrance import Entrance
from relay.errors import KnockRefused
from relay.forwarding import Switch
from relay.fronts import origin_of
from relay.gate import AddressGate, GateLimits, Origin, address_key, crowded_out
from relay.limits import keep_alive_of
from relay.prefixes import network_prefix
from relay.streams import TcpStream

__all__ = ["Acceptor", "remote_of"]

_LOG = logging.getLogger("p2pmoe.relay")
_random: Final = SystemRandom().random
_MAX_ACCEPTS: Final = 64
_LONG_S: Final = 1.5  # a handshake that takes longer may give way
_NO_RESOURCES: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
)


class Acceptor:
    """All connections of one relay process."""

    def __init__(self, switch: Switch, gate: GateLimits, max_handshakes: int) -> None:
        self.n_connections = 0
        self._switch = switch
        self._gate = AddressGate(gate, trio.current_time())
        self._max_handshakes = max_handshakes
        self._in_flight: dict[Entrance, None] = {}  # handshakes, the oldest first
        self._all_gone = trio.Event()
        self._scope = trio.CancelScope(shield=True)

    async def hold_connections(
        self, task_status: trio.TaskStatus[trio.Nursery]
    ) -> None:
        """Keep the nursery of all connections, shielded until `abandon`."""
        with self._scope:
            async with trio.open_nursery() as connections:
                task_status.started(connections)
                await trio.sleep_forever()

    def abandon(self) -> None:
        """End all connections at once."""
        self._scope.cancel()

    async def wait_all_gone(self) -> None:
        """Wait until no connection is left."""
        if self.n_connections:
            self._all_gone = trio.Event()
            await self._all_gone.wait()

    async def accept_loop(
        self, listener: socket.socket, door: Doorway, connections: trio.Nursery
    ) -> None:
        """Take connections of one listener until cancelled."""
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
                self._on_accepted(accepted, remote_of(address), door, connections)

    def _on_accepted(
        self,
        accepted: socket.socket,
        remote: str,
        door: Doorway,
        connections: trio.Nursery,
    ) -> None:
        now = trio.current_time()
        trusted = door.live().trusted_proxies
        origin = origin_of(remote, trusted, behind_front=door.trust_forwarded)
        has_place, crowd = self._place_for(remote if origin is Origin.PEER else "")
        admitted = self._gate.enter(remote, origin, now) if has_place else None
        if admitted is None:
            cause = "address rate" if has_place else "handshakes"
            self._switch.counters.refused[cause] += 1
            accepted.close()
            return
        if crowd is not None:
            crowd.give_way()
        entrance = Entrance(
            gate=self._gate,
            admitted=admitted,
            remote=remote,
            is_front=not admitted.settled,
            on_leave=self._in_flight.pop,
        )
        self._in_flight[entrance] = None
        connections.start_soon(self._serve_socket, accepted, entrance, door)

    def _place_for(self, remote: str) -> tuple[bool, Entrance | None]:
        """Tell whether there is a place for one more handshake, and who gives way."""
        if len(self._in_flight) < self._max_handshakes:
            return True, None
        in_flight = list(self._in_flight)
        whose = [entrance.address for entrance in in_flight]
        newcomer = address_key(remote)
        at = crowded_out(whose, newcomer)
        if at is None and in_flight and whose[0] != newcomer:
            is_long = trio.current_time() - in_flight[0].since >= _LONG_S
            at = 0 if is_long else None
        return (False, None) if at is None else (True, in_flight[at])

    async def _serve_socket(
        self, accepted: socket.socket, entrance: Entrance, door: Doorway
    ) -> None:
        """Root of one connection's task."""
        transport = TcpStream(accepted)
        counters = self._switch.counters
        self.n_connections += 1
        try:
            guest = None
            with entrance.scope:
                guest = await door.open(transport, entrance)
            if entrance.scope.cancelled_caught:
                counters.refused["crowded out"] += 1
            if guest is not None:
                peer = self._switch.admit(
                    guest.admitted,
                    guest.limits,
                    keep_alive_of(guest.admitted.rate_class, _random()),
                    trio.current_time(),
                )
                peer.prefix = network_prefix(guest.address)
                await PeerConnection(guest, peer, self._switch).run(guest.early)
        except KnockRefused as exc:
            counters.refused[exc.cause] += 1
            _LOG.info("connection from %s refused: %s", entrance.remote, exc)
        except Exception:  # noqa: BLE001 - root of a task
            # A bug, or a page handler's: it ends this connection and no other.
            counters.refused["internal error"] += 1
            _LOG.exception("connection from %s failed", entrance.remote)
        finally:
            entrance.leave()
            transport.close()
            self.n_connections -= 1
            if not self.n_connections:
                self._all_gone.set()


def remote_of(address: tuple[object, ...]) -> str:
    """Return the host of a socket's address."""
    return str(address[0])
