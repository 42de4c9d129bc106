"""Direct links: length-prefixed packets over TCP with NODELAY, one peer each.

After connecting, both sides say who they are and whom they mean; that proves nothing,
the session inside does.

    dialler   8 B magic, 32 B its id, 32 B the id it wants
    listener  8 B magic, 32 B its id
    then both u32 length (1..61,440), packet

Writing: `send` tries the socket at once, without waiting; what does not fit is queued,
by class, and one task owns that queue. No caller's cancellation can reach a write
(faults B30): a packet is written to its end or the connection is closed, and a cut-off
packet is dropped by the reader. No progress for 10 s ends the link. What the kernel
holds unsent is kept small (TCP_NOTSENT_LOWAT): only what is still with us can be
overtaken by a more urgent packet (faults B24).

Ceiling: some hundred MB/s in all (docs/explanation/links.md has the measurement),
because each packet is sealed and opened in Python; faster transports would be another
`Link`.
"""

import contextlib
import errno
import socket
from collections.abc import Iterator
from typing import Final

import trio

from mobile_worker.clock import Clock
from mobile_worker.errors import LinkLost
from mobile_worker.links.events import PathKind
from mobile_worker.links.lanes import Lanes
from mobile_worker.links.link import LinkOwner
from mobile_worker.links.meter import Meter
from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.packets import MAX_PACKET_BYTES, Packet
from relay.errors import WeakKey
from relay.keys import PEER_ID_BYTES, PeerId, check_peer_id

__all__ = ["DirectLink", "greet", "welcome"]

GREETING_TIMEOUT_S: Final = 5.0
WRITE_TIMEOUT_S: Final = 10.0
_MAGIC: Final = b"P2PMOED1"
_LENGTH_BYTES = 4
_READ_BYTES = 4 * (_LENGTH_BYTES + MAX_PACKET_BYTES)
_MAX_PARTS = 8  # packets joined into one write
_MAX_BATCH_BYTES = 256 << 10
_USER_TIMEOUT_MS = 15_000
# Unsent bytes that the kernel may hold: 0.1 s of a link of 5 Mbit/s.
_NOTSENT_LOWAT_BYTES = 64 << 10
_OPTIONS = (
    ("TCP_NODELAY", 1),
    ("TCP_USER_TIMEOUT", _USER_TIMEOUT_MS),
    ("TCP_NOTSENT_LOWAT", _NOTSENT_LOWAT_BYTES),
)


async def greet(stream: trio.SocketStream, own: PeerId, wanted: PeerId) -> None:
    """Say who we are and whom we want, as the dialler.

    Raises:
        LinkLost: somebody else answers, or nobody.
    """
    with _lost_in_greeting():
        await stream.send_all(_MAGIC + own + wanted)
        answer = await _read_exactly(stream, len(_MAGIC) + PEER_ID_BYTES)
    if answer != _MAGIC + wanted:
        raise LinkLost("another peer answers there", peer=wanted)


async def welcome(stream: trio.SocketStream, own: PeerId) -> PeerId:
    """Hear who dials and answer; return the id that it claims.

    Raises:
        LinkLost: it wants somebody else, or says nothing sensible in time.
    """
    with _lost_in_greeting():
        greeting = await _read_exactly(stream, len(_MAGIC) + 2 * PEER_ID_BYTES)
        claimed = greeting[len(_MAGIC) : -PEER_ID_BYTES]
        if not greeting.startswith(_MAGIC) or not greeting.endswith(own):
            raise LinkLost("a greeting that is not for us")
        try:
            peer = check_peer_id(claimed)
        except WeakKey as error:
            raise LinkLost(str(error)) from error
        await stream.send_all(_MAGIC + own)
    return peer


@contextlib.contextmanager
def _lost_in_greeting() -> Iterator[None]:
    try:
        with trio.fail_after(GREETING_TIMEOUT_S):
            yield
    except (trio.TooSlowError, trio.BrokenResourceError) as error:
        raise LinkLost("the greeting failed") from error


async def _read_exactly(stream: trio.SocketStream, n: int) -> bytes:
    # Not one byte more: what follows belongs to the link.
    read = b""
    while len(read) < n:
        part = await stream.receive_some(n - len(read))
        if not part:
            raise LinkLost("closed during the greeting")
        read += part
    return read


class DirectLink:
    """One TCP connection to one peer, after the greeting.

    Its meter holds a received byte for a sign of life, and one that left after it had
    to wait: then the other end had taken earlier ones.
    """

    kind = PathKind.DIRECT

    def __init__(
        self, stream: trio.SocketStream, peer: PeerId, owner: LinkOwner, clock: Clock
    ) -> None:
        self.peer = peer
        self.meter = Meter()
        self.opened_at = self.meter.alive_at = clock.monotonic()
        self._clock = clock
        self._owner = owner
        self._socket = socket.socket(fileno=stream.socket.detach())
        self._socket.setblocking(False)
        for name, value in _OPTIONS:
            option = getattr(socket, name, None)  # not every system has each
            if option is not None:
                with contextlib.suppress(OSError):
                    self._socket.setsockopt(socket.IPPROTO_TCP, option, value)
        self._lanes = Lanes()
        self._begun: Packet | None = None  # written in part
        self._rest = b""  # what is left of it
        self._queued = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()
        self._reason: str | None = None

    @property
    def proven(self) -> bool:
        """Whether the peer answered a sealed probe by this very link."""
        return self.meter.proven

    @property
    def open_to(self) -> MessageClass | None:
        """The least urgent class that there is room for."""
        return self._lanes.open_to if self._reason is None else None

    @property
    def crowded(self) -> bool:
        """Whether even answers to what the peer sends find no room."""
        return self._lanes.crowded

    def send(self, peer: PeerId, packet: Packet) -> None:
        """Write the packet now as far as the socket takes it; queue the rest."""
        if self._reason is not None or peer != self.peer:
            return
        if self._begun is None and not self._lanes:
            frame = _framed(packet)
            n = self._write_some(frame)
            if n == len(frame):
                return
            if n:
                self._begun, self._rest = packet, frame[n:]
                self._queued.unpark()
                return
        self._lanes.put(packet)
        self._queued.unpark()

    def take_back(self) -> tuple[Packet, ...]:
        """Remove and return what is not written yet, to go another way.

        A packet written in part is among them and is also written to its end: its
        counter keeps it from being taken twice.
        """
        begun = () if self._begun is None else (self._begun,)
        return begun + self._lanes.clear()

    def abort(self, reason: str) -> None:
        """End the link; `run` returns soon."""
        if self._reason is None:
            self._reason = reason
            self._scope.cancel()

    async def run(self) -> None:
        """Read and write until the link ends, then tell the owner."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read)
                    nursery.start_soon(self._write)
        finally:
            self._reason = self._reason or "closed"
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
            self._owner.link_lost(self, self.take_back(), self._reason)

    async def _read(self) -> None:
        buffer = bytearray(_READ_BYTES)
        view = memoryview(buffer)
        n_filled = 0
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                n = self._socket.recv_into(view[n_filled:])
            except BlockingIOError:
                continue
            except OSError as error:
                self.abort(_reason(error))
                return
            if not n:
                self.abort("closed by the peer")
                return
            self.meter.alive_at = self._clock.monotonic()
            n_filled += n
            n_taken = self._take_packets(view[:n_filled])
            if n_taken:
                rest = n_filled - n_taken
                buffer[:rest] = view[n_taken:n_filled]
                n_filled = rest

    def _take_packets(self, view: memoryview) -> int:
        """Hand over all whole packets; return the bytes they took."""
        at = 0
        while len(view) - at >= _LENGTH_BYTES and self._reason is None:
            n = int.from_bytes(view[at : at + _LENGTH_BYTES], "big")
            if not 0 < n <= MAX_PACKET_BYTES:
                self.abort(f"a packet of {n} bytes")
                break
            end = at + _LENGTH_BYTES + n
            if end > len(view):
                break
            packet = bytes(view[at + _LENGTH_BYTES : end])
            at = end
            self._owner.packet_arrived(self, self.peer, packet)
        return at

    async def _write(self) -> None:
        while True:
            while self._begun is None and not self._lanes:
                await self._queued.park()
            with trio.move_on_after(WRITE_TIMEOUT_S) as scope:
                await trio.lowlevel.wait_writable(self._socket)
            if scope.cancelled_caught:
                self.abort("the peer takes no bytes")
                return
            was_open_to = self.open_to
            if self._write_queue():
                self.meter.alive_at = self._clock.monotonic()
            if self.open_to is not was_open_to and self.open_to is not None:
                self._owner.link_writable(self)

    def _write_queue(self) -> bool:
        """Write what the socket takes; tell whether it took any."""
        has_moved = False
        while (self._begun is not None or self._lanes) and self._reason is None:
            begun, rest = self._begun, self._rest
            packets = self._lanes.take(_MAX_PARTS, _MAX_BATCH_BYTES)
            parts = [rest] if begun is not None else []
            parts += [_framed(packet) for packet in packets]
            waiting = packets if begun is None else [begun, *packets]
            n = self._write_some(b"".join(parts))
            has_moved = has_moved or n > 0
            n_whole = 0
            while n_whole < len(parts) and n >= len(parts[n_whole]):
                n -= len(parts[n_whole])
                n_whole += 1
            self._begun, self._rest = None, b""
            if n_whole == len(parts):
                continue
            left = waiting[n_whole:]
            if n or (begun is not None and not n_whole):
                self._begun, self._rest = left[0], parts[n_whole][n:]
                left = left[1:]
            self._lanes.put_back(left)
            return has_moved
        return has_moved

    def _write_some(self, frame: bytes) -> int:
        try:
            return self._socket.send(frame)
        except BlockingIOError:
            return 0
        except OSError as error:
            self.abort(_reason(error))
            return 0


def _framed(packet: Packet) -> bytes:
    return len(packet.payload).to_bytes(_LENGTH_BYTES, "big") + packet.payload


def _reason(error: OSError) -> str:
    if error.errno == errno.ECONNRESET:
        return "reset by the peer"
    return (error.strerror or str(error)).lower()
