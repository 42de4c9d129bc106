"""An admitted peer's connection at the relay: one task reads, one owns every write.

The reader hands each message to the switch and waits for nothing but its own peer's
rate bucket. The writer takes from the peer's outbox, up to 64 KiB a write. While it has
nothing to do, what a reader's turn brings for its peer is written at the end of that
turn as far as the socket takes it at once: that never waits for the receiver, and the
rest, and all that comes until it has left, is the writer's. A write that
fails or moves no byte for 2 s ends the connection: half a frame may be on the wire, so
nothing is ever written behind it (faults B30). Any received byte counts as life.
"""

import logging
from collections.abc import Iterable

import trio
from websockets.frames import Frame, Opcode
from websockets.protocol import State

from relay.defaults import BATCH_BYTES, CLOSE_TIMEOUT_S, MAX_REASON_BYTES, READ_BYTES
from relay.doorway import Guest, linger
from relay.errors import ProtocolError
from relay.forwarding import Switch
from relay.frame_types import GoneReason
from relay.frames import cut_utf8
from relay.keys import short_id
from relay.outbox import Batch
from relay.registry import Peer
from relay.streams import TcpStream, Wakeup, WriteStalled
from relay.tls_stream import TlsStream

__all__ = ["PeerConnection"]

_LOG = logging.getLogger("p2pmoe.relay")
# Answers of the WebSocket layer that wait: more means that the peer does not read.
_MAX_CONTROL_WRITES = 1024


class PeerConnection:
    """The two tasks of one peer."""

    __slots__ = (
        "_closing",
        "_detail",
        "_final_code",
        "_has_joined",
        "_n_in_flight",
        "_peer",
        "_protocol",
        "_reason",
        "_scope",
        "_stream",
        "_switch",
        "_transport",
        "_turn",
        "_unfinished",
        "_wakeup",
    )

    def __init__(self, guest: Guest, peer: Peer, switch: Switch) -> None:
        self._stream = guest.stream
        self._transport = guest.transport
        self._protocol = guest.protocol
        self._peer = peer
        self._switch = switch
        self._scope = trio.CancelScope()
        self._wakeup = Wakeup()
        self._closing = False
        self._final_code = 1000
        self._reason = GoneReason.DISCONNECTED
        self._detail = "disconnected"
        self._n_in_flight = 0
        self._turn = switch.turn
        self._has_joined = False  # is due at the end of this turn
        self._unfinished: tuple[Batch, int] | None = None  # the writer ends it
        peer.wake = self._wake
        peer.end = self.end

    async def run(self, early: Iterable[Frame]) -> None:
        """Serve the peer until it leaves, is silent, too slow, or breaks a rule."""
        self._switch.enter(self._peer, trio.current_time())
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write_loop)
                    await self._read_loop(early)
        finally:
            self._switch.counters.lost_at_close += self._n_in_flight
            self._switch.leave(self._peer, self._reason, trio.current_time())
            _LOG.info("peer %s left: %s", short_id(self._peer.peer_id), self._detail)
        if self._closing:
            await linger(self._transport)

    def end(self, reason: GoneReason, code: int, detail: str) -> None:
        """End the connection soon: what waits may leave first, for at most a second."""
        if self._closing:
            return
        self._closing = True
        self._reason = reason
        self._final_code = code
        self._detail = detail
        self._scope.deadline = trio.current_time() + CLOSE_TIMEOUT_S
        self._wakeup.set()

    async def _read_loop(self, early: Iterable[Frame]) -> None:
        receive = self._stream.receive_some
        protocol = self._protocol
        peer = self._peer
        counters = self._switch.counters
        turn = self._turn
        try:
            self._on_frames(early, trio.current_time())
            while protocol.state is State.OPEN and not self._closing:
                chunk = await receive(READ_BYTES)
                if not chunk:
                    break
                now = trio.current_time()
                peer.last_read = now
                counters.bytes_in += len(chunk)
                protocol.receive_data(chunk)
                turn.begin()
                try:
                    n_frames = self._on_frames(protocol.events_received(), now)
                finally:
                    turn.end()
                if protocol.writes:
                    self._on_control_writes()
                wait_s = peer.bytes_bucket.take(len(chunk), now)
                wait_s = max(wait_s, peer.frames_bucket.take(n_frames, now))
                if wait_s:
                    self._switch.tell_throttled(peer, now)
                    await trio.sleep(wait_s)
        except ProtocolError as exc:
            self.end(GoneReason.REFUSED, exc.close_code, str(exc))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._scope.cancel()
        if protocol.state is State.OPEN and not self._closing:
            self._scope.cancel()
        elif protocol.parser_exc is not None:
            self.end(GoneReason.REFUSED, 1002, str(protocol.parser_exc))
        else:
            self.end(GoneReason.DISCONNECTED, 1000, "closed by the peer")

    def _on_frames(self, frames: Iterable[object], now: float) -> int:
        n_frames = 0
        for frame in frames:
            if not isinstance(frame, Frame):
                continue
            n_frames += 1
            if frame.opcode is Opcode.BINARY:
                if not frame.fin:
                    raise ProtocolError("a fragmented message", close_code=1002)
                self._switch.receive(self._peer, bytes(frame.data), now)
            elif frame.opcode is Opcode.TEXT:
                raise ProtocolError("a text message", close_code=1003)
            elif frame.opcode is Opcode.CONT:
                raise ProtocolError("a fragmented message", close_code=1002)
        return n_frames

    def _on_control_writes(self) -> None:
        if len(self._protocol.writes) > _MAX_CONTROL_WRITES:
            raise ProtocolError("does not read the answers to its pings")
        self._wakeup.set()

    async def _write_loop(self) -> None:
        try:
            while True:
                if self._unfinished is not None:
                    await self._finish(*self._unfinished)
                batch = self._next_batch()
                if batch.parts:
                    await self._write(batch)
                elif batch.expired:
                    continue
                elif self._closing:
                    break
                else:
                    await self._wakeup.wait()
            if self._protocol.state is State.OPEN:
                text = cut_utf8(self._detail, MAX_REASON_BYTES)
                self._protocol.send_close(self._final_code, text)
                await self._stream.send_all(b"".join(self._protocol.data_to_send()))
        except WriteStalled as exc:
            self._reason = GoneReason.SLOW
            self._detail = f"slow consumer: {exc}"
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._detail = "connection reset"
        self._scope.cancel()

    def _next_batch(self) -> Batch:
        protocol = self._protocol
        if protocol.state is State.OPEN:
            batch = self._peer.outbox.take(BATCH_BYTES, trio.current_time())
        else:
            batch = Batch()
        if protocol.writes:
            batch.parts.extend(protocol.data_to_send())
        if batch.expired:
            self._switch.report(batch.expired)
        return batch

    def _wake(self) -> None:
        """Have what is new for our peer written: at the end of the turn, or soon."""
        if self._has_joined:
            return
        if self._wakeup.is_awaited and self._turn.join(self._write_at_once):
            self._has_joined = True
        else:
            self._wakeup.set()

    def _write_at_once(self) -> None:
        """Write for the writer, which waits, in another peer's turn; never wait."""
        self._has_joined = False
        stream = self._stream
        if not self._wakeup.is_awaited or not isinstance(stream, TlsStream | TcpStream):
            self._wakeup.set()
            return
        batch = self._next_batch()
        if not batch.parts:
            return
        wire = b"".join(batch.parts)
        self._n_in_flight = batch.n_frames
        try:
            if stream.send_at_once(wire):
                self._note_written(batch, len(wire))
            else:
                self._unfinished = batch, len(wire)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._detail = "connection reset"
            self._scope.cancel()
            return
        if self._unfinished is not None or batch.n_bytes >= BATCH_BYTES:
            self._wakeup.set()

    async def _finish(self, batch: Batch, n_bytes: int) -> None:
        await self._stream.send_all(b"")
        self._unfinished = None
        self._note_written(batch, n_bytes)

    async def _write(self, batch: Batch) -> None:
        wire = b"".join(batch.parts)
        self._n_in_flight = batch.n_frames
        await self._stream.send_all(wire)
        self._note_written(batch, len(wire))
        if batch.n_bytes >= BATCH_BYTES:
            # More waits, and a write that did not block gave no one else a turn.
            await trio.lowlevel.checkpoint()

    def _note_written(self, batch: Batch, n_bytes: int) -> None:
        self._n_in_flight = 0
        counters = self._switch.counters
        counters.delivered += batch.n_frames
        counters.bytes_out += n_bytes
        counters.writes += 1
        if batch.n_frames:
            counters.delays[batch.age_ms.bit_length()] += 1
