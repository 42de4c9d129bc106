"""Direct links: length-prefixed packets over TCP with NODELAY, one peer each.

After connecting, both sides say who they are and whom they mean; that proves nothing,
the session inside does.

    dialler   8 B magic, 32 B its id, 32 B the id it wants
    listener  8 B magic, 32 B its id
    then both u32 length (1..61,440), packet

Writing: `send` tries the socket at once, without waiting; what does not fit is queued,
and one task owns that queue. No caller's cancellation can reach a write (faults B30): a
packet is written to its end or the connection is closed, and a cut-off packet is
dropped by the reader. No progress for 10 s ends the link.

Ceiling, measured on one core of a small server: some hundred MB/s in all, because each
packet is sealed and opened in Python; faster transports would be another `Link`.
"""

import contextlib
import errno
import socket
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

import trio

from mobile_worker.clock import Clock
from mobile_worker.errors import LinkLost
from mobile_worker.links.events import PathKind
from mobile_worker.links.link import LinkOwner
from mobile_worker.session.packets import MAX_PACKET_BYTES, Packet
from relay.errors import WeakKey
from relay.keys import PEER_ID_BYTES, PeerId, check_peer_id

__all__ = ["DirectLink", "greet", "welcome"]

GREETING_TIMEOUT_S: Final = 5.0
WRITE_TIMEOUT_S: Final = 10.0
_MAGIC: Final = b"P2PMOED1"
_LENGTH_BYTES = 4
_MAX_QUEUED_BYTES = 256 << 10  # above this the session keeps what it has
_MAX_ANSWER_BYTES = 1 << 20  # above this answers to what the peer sends are lost
_READ_BYTES = 4 * (_LENGTH_BYTES + MAX_PACKET_BYTES)
_MAX_PARTS = 8  # packets joined into one write
_USER_TIMEOUT_MS = 15_000


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

    proven: the peer answered a sealed probe by this very link.
    """

    kind = PathKind.DIRECT

    def __init__(
        self, stream: trio.SocketStream, peer: PeerId, owner: LinkOwner, clock: Clock
    ) -> None:
        self.peer = peer
        self.proven = False
        self.token = 0
        self.opened_at = self.heard_at = clock.monotonic()
        self.probed_at = float("-inf")
        self._clock = clock
        self.round_trip_s: float | None = None
        self._owner = owner
        self._socket = socket.socket(fileno=stream.socket.detach())
        self._socket.setblocking(False)
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS
            )
        self._queue: deque[Packet] = deque()
        self._n_queued_bytes = 0
        self._n_written = 0  # bytes of the first queued packet and its length
        self._queued = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()
        self._reason: str | None = None

    @property
    def writable(self) -> bool:
        """Whether the queue has room."""
        return self._reason is None and self._n_queued_bytes < _MAX_QUEUED_BYTES

    @property
    def crowded(self) -> bool:
        """Whether even answers to what the peer sends find no room."""
        return self._n_queued_bytes >= _MAX_ANSWER_BYTES

    def send(self, peer: PeerId, packet: Packet) -> None:
        """Write the packet now as far as the socket takes it; queue the rest."""
        if self._reason is not None or peer != self.peer:
            return
        if not self._queue:
            frame = _framed(packet)
            n = self._write_some(frame)
            if n == len(frame):
                return
            self._n_written = n
        self._queue.append(packet)
        self._n_queued_bytes += len(packet.payload)
        self._queued.unpark()

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
            # A packet written in part is sent again: the reader dropped its part, and
            # if it had it all, its counter keeps it from being taken twice.
            self._owner.link_lost(self, tuple(self._queue), self._reason)

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
            self.heard_at = self._clock.monotonic()
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
            while not self._queue:
                await self._queued.park()
            with trio.move_on_after(WRITE_TIMEOUT_S) as scope:
                await trio.lowlevel.wait_writable(self._socket)
            if scope.cancelled_caught:
                self.abort("the peer takes no bytes")
                return
            was_full = not self.writable
            self._write_queue()
            if was_full and self.writable:
                self._owner.link_writable(self)

    def _write_queue(self) -> None:
        while self._queue and self._reason is None:
            parts = [_framed(packet) for packet in islice(self._queue, _MAX_PARTS)]
            batch = b"".join(parts)[self._n_written :]
            n = self._write_some(batch)
            left = self._n_written + n
            for part in parts:
                if left < len(part):
                    break
                left -= len(part)
                self._n_queued_bytes -= len(self._queue.popleft().payload)
            self._n_written = left
            if n < len(batch):
                return

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
