"""A peer's connection to a relay: `async with connect(...) as connection`.

Three tasks belong to a connection: one reads, one owns every write, one watches for
life. `send` never waits, and cancelling whoever called it cannot tear a frame (faults
B30): it queues, and only while nothing is queued and the writer rests, it writes the
frame itself as far as the socket takes it; the rest is the writer's, before all else. A
write that fails or takes no byte for 2 s ends the connection; it is never used again.
On the way out the queue is flushed for at most a second.

The events of one connection are read by one task; with `take_each` they are taken in
the turn in which they come. While it does not read, at most 4 MiB
of events wait here; then the connection is not read either, and the relay sheds.

Losing the relay says nothing about any peer: `events` ends with `ConnectionLost` and no
peer is reported gone.
"""

import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from os import environ, urandom

import trio
from websockets.frames import Frame as WebSocketFrame
from websockets.frames import Opcode
from websockets.protocol import State

from relay.defaults import (
    BATCH_BYTES,
    CLOSE_TIMEOUT_S,
    DIAL_TIMEOUT_S,
    PING_INTERVAL_S,
    PING_TIMEOUT_S,
    READ_BYTES,
)
from relay.dial import Dialled, dial
from relay.endpoint import Endpoint
from relay.errors import ConnectionLost, ProtocolError, RelayUnreachable
from relay.events import Event
from relay.frame_types import FrameClass, Ping, Pong, Send, Watch
from relay.frames import MAX_IDS, encode_frame
from relay.groups import only_exception
from relay.handshake import Credentials
from relay.incoming import Inbox
from relay.joining import Joined, join
from relay.keys import PeerId
from relay.liveness import LifeSign, Liveness
from relay.send_queue import SendQueue
from relay.streams import TcpStream, Wakeup, WriteStalled
from relay.suspend import SuspendWatch
from relay.tls_stream import TlsStream

__all__ = ["ClientSettings", "RelayConnection", "connect"]

# A larger frame gains little by leaving at once, and sealing it holds up the caller.
_AT_ONCE_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """How a connection behaves. Bytes and seconds.

    `allow_plaintext`: ws:// URLs to a loopback address may be dialled (tests, and a
    front on this host); anything else is refused in any case. `environment` names the
    HTTP proxy (see `relay.proxies`). `fronts`: what `relay.dial` remembers of relays
    from one connection to the next.
    """

    allow_plaintext: bool = False
    environment: Mapping[str, str] = field(default_factory=lambda: environ, repr=False)
    fronts: set[str] = field(default_factory=set, compare=False)
    send_queue_bytes: int = 4 * 1024 * 1024
    dial_timeout_s: float = DIAL_TIMEOUT_S
    ping_interval_s: float = PING_INTERVAL_S
    ping_timeout_s: float = PING_TIMEOUT_S


class RelayConnection:
    """An open, authenticated connection. Made by `connect`."""

    def __init__(
        self,
        dialled: Dialled,
        joined: Joined,
        settings: ClientSettings,
        wall_us: Callable[[], int],
    ) -> None:
        self.welcome = joined.welcome
        self.route = dialled.route
        self._stream = dialled.stream
        self._transport = dialled.transport
        self._protocol = joined.protocol
        self._early = joined.early
        self._settings = settings
        self._wall_us = wall_us
        self._queue = SendQueue(settings.send_queue_bytes)
        self._notices: deque[bytes] = deque()
        self._inbox = Inbox()
        self._wake_writer = Wakeup()
        self._writable = trio.Event()
        self._scope = trio.CancelScope(shield=True)
        self._ended = trio.Event()
        self._owes = False  # a frame was begun that the writer has to end
        self._closing = False
        self._lost: str | None = None
        self._last_read = trio.current_time()

    @property
    def heard_s(self) -> float:
        """Seconds since anything was read of the relay."""
        return trio.current_time() - self._last_read

    def send(
        self,
        destination: PeerId,
        payload: bytes,
        *,
        frame_class: FrameClass = FrameClass.INTERACTIVE,
        flow: int = 0,
        ttl_ms: int = 10_000,
        nack: bool = True,
    ) -> None:
        """Queue a frame of at most 65,535 bytes; never waits.

        Raises:
            SendQueueFull: no room now; nothing was queued. See `wait_writable`.
            PayloadTooLarge, FrameRefused: above 65,535 bytes; `ttl_ms` above 60,000.
            ConnectionLost: the connection has ended.
        """
        self._check_open()
        frame = Send(
            destination=destination,
            payload=payload,
            frame_class=frame_class,
            flow=flow,
            ttl_ms=ttl_ms,
            nack=nack,
        )
        is_due = not self._queue and len(payload) <= _AT_ONCE_BYTES
        self._queue.put(frame, trio.current_time())
        if is_due and self._wake_writer.is_awaited:
            self._write_at_once()
        else:
            self._wake_writer.set()

    async def wait_writable(self) -> None:
        """Wait until less than half of the send queue is used.

        Raises:
            ConnectionLost: the connection has ended.
        """
        while not self._queue.is_low:
            self._check_open()
            if self._writable.is_set():  # several may wait for the same event
                self._writable = trio.Event()
            await self._writable.wait()
        self._check_open()
        await trio.lowlevel.checkpoint()

    def watch(self, peers: Iterable[PeerId]) -> None:
        """Ask to be told when these peers come and go; adds to those watched."""
        self._check_open()
        wanted = tuple(peers)
        for at in range(0, len(wanted), MAX_IDS):
            part = wanted[at : at + MAX_IDS]
            self._notices.append(encode_frame(Watch(peers=part)))
        self._wake_writer.set()

    def forget_watches(self) -> None:
        """Watch nobody any longer."""
        self._check_open()
        self._notices.append(encode_frame(Watch(peers=())))
        self._wake_writer.set()

    def events(self) -> AsyncIterator[Event]:
        """Iterate over what the relay tells; for one task.

        Raises:
            ConnectionLost: at the end, always: a connection does not end by itself.
        """
        return self._inbox

    async def take_each(self, take: Callable[[Event], None]) -> None:
        """Call `take`, which may not wait, with each event: quicker than `events`.

        Raises:
            ConnectionLost: at the end, always.
        """
        await self._inbox.take_each(take)

    def _check_open(self) -> None:
        if self._lost is not None:
            raise ConnectionLost(self._lost)

    def _lose(self, reason: str) -> None:
        if self._lost is None:
            self._lost = reason
            self._inbox.end(ConnectionLost(reason))
        self._writable.set()
        self._scope.cancel()

    async def run(self) -> None:
        """Serve the connection until it is lost or closed; the owner's nursery runs it.

        The shield keeps the tasks alive while the owner is being cancelled, so that the
        last frames can leave; `close` and `_lose` end them.
        """
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read_loop)
                nursery.start_soon(self._write_loop)
                nursery.start_soon(self._watch_life)
        self._ended.set()
        self._transport.close()

    async def close(self) -> None:
        """Flush what is queued and let the relay close too, for at most a second."""
        self._closing = True
        self._wake_writer.set()
        with trio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
            await self._ended.wait()
        self._lose("closed by us")

    async def _read_loop(self) -> None:
        early, self._early = self._early, []
        try:
            self._on_websocket_frames(early)
            while True:
                chunk = await self._stream.receive_some(READ_BYTES)
                self._last_read = trio.current_time()
                if not chunk:
                    break
                self._protocol.receive_data(chunk)
                self._on_websocket_frames(self._protocol.events_received())
                if self._protocol.writes:
                    self._wake_writer.set()
                if self._inbox.is_full:
                    await self._inbox.wait_room()
                    self._last_read = trio.current_time()
        except ProtocolError as exc:
            self._lose(f"the relay breaks the protocol: {exc}")
            return
        except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            self._lose(_why(exc))
            return
        self._lose(self._closing_reason())

    def _closing_reason(self) -> str:
        closed = self._protocol.close_rcvd
        if closed is None:
            return "the relay closed it without a word"
        return f"the relay closed it: {closed.reason or closed.code}"

    def _on_websocket_frames(self, events: Iterable[object]) -> None:
        for event in events:
            if not isinstance(event, WebSocketFrame):
                continue
            if event.opcode is Opcode.BINARY and event.fin:
                pong = self._inbox.put_message(bytes(event.data))
                if pong is not None:
                    self._answer(pong)
            elif event.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                raise ProtocolError("a message that is not one binary frame")

    def _answer(self, pong: Pong) -> None:
        # One answer is enough, however many pings came.
        message = encode_frame(pong)
        if message not in self._notices:
            self._notices.append(message)
            self._wake_writer.set()

    async def _write_loop(self) -> None:
        try:
            while True:
                batch = self._next_batch()
                if batch or self._owes:
                    self._owes = False
                    await self._stream.send_all(batch)
                    if self._queue.is_low:
                        self._writable.set()
                elif self._closing:
                    break
                else:
                    await self._wake_writer.wait()
            if self._protocol.state is State.OPEN:
                self._protocol.send_close(1000)
                await self._stream.send_all(b"".join(self._protocol.data_to_send()))
            # The reader ends the connection when the relay has closed it too.
        except WriteStalled:
            self._lose("the relay takes no bytes")
        except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            self._lose(_why(exc))

    def _write_at_once(self) -> None:
        """Write in the caller's turn, for the writer, which waits."""
        stream = self._stream
        if not isinstance(stream, TlsStream | TcpStream):
            self._wake_writer.set()
            return
        try:
            if not stream.send_at_once(self._next_batch()):
                self._owes = True
                self._wake_writer.set()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            self._lose(_why(exc))

    def _next_batch(self) -> bytes:
        protocol = self._protocol
        if protocol.state is State.OPEN:
            while self._notices:
                protocol.send_binary(self._notices.popleft())
            if self._queue:
                taken = self._queue.take(BATCH_BYTES, trio.current_time())
                for message in taken.frames:
                    protocol.send_binary(message)
                for nacked in taken.expired:
                    self._inbox.put(nacked)
        return b"".join(protocol.data_to_send())

    async def _watch_life(self) -> None:
        """Ping a quiet relay; notice one that is dead, and that this host slept."""
        settings = self._settings
        tick_s = min(2.0, settings.ping_interval_s / 4)
        clocks = SuspendWatch(self._wall_us, trio.current_time())
        liveness = Liveness(
            after_s=settings.ping_interval_s,
            timeout_s=settings.ping_timeout_s,
            every_s=tick_s,
            now=trio.current_time(),
        )
        while True:
            await trio.sleep(tick_s)
            now = trio.current_time()
            if clocks.slept(now):
                self._lose("this host was suspended")
                return
            # An owner that does not read is no silence of the relay's.
            last_read = now if self._inbox.is_full else self._last_read
            sign = liveness.look(now, last_read)
            if sign is LifeSign.PING_DUE:
                self._notices.append(encode_frame(Ping(nonce=urandom(8))))
                self._wake_writer.set()
            elif sign is LifeSign.SILENT:
                self._lose("the relay is silent")
                return


def _why(exc: Exception) -> str:
    return str(exc.__cause__ or exc).lower() or "connection reset"


@contextlib.asynccontextmanager
async def connect(
    endpoint: Endpoint,
    credentials: Credentials,
    *,
    wall_us: Callable[[], int],
    settings: ClientSettings | None = None,
) -> AsyncIterator[RelayConnection]:
    """Connect to a relay and serve the connection while the block runs.

    `wall_us` reads the wall clock in microseconds: the relay tells how wrong it is, and
    a jump against the monotonic clock means that this host slept.

    Raises:
        RelayUnreachable, CertificateRefused, PlaintextRefused: no way in.
        EndpointError: the URL cannot be used.
        WrongRelayId: another relay than the pinned one.
        HandshakeRefused: the relay says no (TokenRefused, RelayBusy).
    """
    settings = settings or ClientSettings()
    try:
        with trio.fail_after(settings.dial_timeout_s):
            dialled = await dial(
                endpoint,
                allow_plaintext=settings.allow_plaintext,
                environment=settings.environment,
                fronts=settings.fronts,
            )
    except trio.TooSlowError as exc:
        raise RelayUnreachable(
            f"relay {endpoint.address} does not answer within "
            f"{settings.dial_timeout_s:g} s",
            peer=endpoint.address,
        ) from exc
    try:
        joined = await join(dialled.stream, endpoint, credentials, wall_us)
        connection = RelayConnection(dialled, joined, settings, wall_us)
        async with only_exception(), trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            try:
                yield connection
            finally:
                await connection.close()
    finally:
        dialled.transport.close()
