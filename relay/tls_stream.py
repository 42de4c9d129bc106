"""TLS over a stream, for one task that reads and one that writes.

`ssl` does the work on buffers in memory; here bytes go between these and the transport.
It does what `trio.SSLStream` does, in fewer steps a message, which is most of what TLS
costs a relay in Python. Rules:

- bytes leave in the order in which TLS made them: one flush at a time;
- `send_at_once` never waits: what the transport does not take now stays for the next
  flush;
- a flush that fails or is cancelled half-way has torn a record, so nothing is written
  behind it (faults B30);
- an end without TLS's goodbye is an end all the same: the frames inside say for
  themselves whether they are whole;
- there is no renegotiation (TLS 1.3 has none, OpenSSL refuses it in 1.2).

Source: RFC 8446; the ssl module's notes on non-blocking use with memory buffers.
"""

import contextlib
import ssl

import trio

from relay.defaults import READ_BYTES
from relay.streams import TcpStream

__all__ = ["TlsStream"]

_ENDED = (ssl.SSLZeroReturnError, ssl.SSLEOFError)


class TlsStream(trio.abc.Stream):
    """A TLS connection on top of `transport`, which it closes."""

    def __init__(
        self,
        transport: trio.abc.Stream,
        context: ssl.SSLContext,
        *,
        server_hostname: str | None = None,
        server_side: bool = False,
    ) -> None:
        """Begin; `do_handshake` comes first."""
        self._transport = transport
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_side,
            server_hostname=server_hostname,
        )
        self._flushing = trio.Lock()
        self._is_torn = False
        self._failed: ssl.SSLError | None = None  # what came is no TLS
        self._is_over = False  # the other side said its goodbye, or just left
        self._is_behind = False  # the transport keeps what it did not take at once

    async def do_handshake(self) -> None:
        """Agree on keys.

        Raises:
            trio.BrokenResourceError: it failed; the cause is ssl's error, if any.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._feed()
            except ssl.SSLError as exc:
                raise trio.BrokenResourceError(str(exc)) from exc
            else:
                await self._flush()
                return

    def version(self) -> str | None:
        """Return which TLS it is, as `TLSv1.3`."""
        return self._tls.version()

    def selected_alpn_protocol(self) -> str | None:
        """Return the protocol that both sides chose."""
        return self._tls.selected_alpn_protocol()

    def peer_certificate(self) -> bytes | None:
        """Return the other side's certificate as DER; None if it showed none."""
        return self._tls.getpeercert(binary_form=True)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Wait for bytes and return all there are, of many records; b"" at the end.

        Raises:
            trio.BrokenResourceError: the connection is gone, or what came is no TLS.
        """
        n_bytes = max_bytes or READ_BYTES
        while True:
            chunk = self._read(n_bytes)
            if self._outgoing.pending:  # an answer to new keys
                await self._flush()
            if chunk is not None:
                return chunk
            await self._feed()

    def _read(self, n_bytes: int) -> bytes | None:
        """Open what is here: None if that is nothing yet, b"" at the end."""
        if self._failed is not None:
            raise trio.BrokenResourceError(str(self._failed)) from self._failed
        if self._is_over:
            return b""
        chunks: list[bytes] = []
        try:
            while n_bytes > 0 and self._has_incoming:
                chunk = self._tls.read(n_bytes)
                if not chunk:  # the other side's goodbye
                    self._is_over = True
                    break
                chunks.append(chunk)
                n_bytes -= len(chunk)
        except ssl.SSLWantReadError:
            pass
        except _ENDED:
            self._is_over = True
        except ssl.SSLError as exc:
            self._failed = exc
            if not chunks:
                raise trio.BrokenResourceError(str(exc)) from exc
        return b"".join(chunks) if chunks or self._is_over else None

    @property
    def _has_incoming(self) -> bool:
        incoming = self._incoming
        return incoming.pending > 0 or incoming.eof or self._tls.pending() > 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Seal all of `data` and hand it to the transport.

        Raises:
            trio.BrokenResourceError: the connection is gone, or was torn by a write.
        """
        self._seal(data)
        await self._flush()

    def send_at_once(self, data: bytes) -> bool:
        """Seal all of `data`; tell whether the transport took all of it now.

        If not, `send_all` must follow, be it with nothing.

        Raises:
            trio.BrokenResourceError: the connection is gone, or was torn by a write.
        """
        self._seal(data)
        if self._is_torn and not self._flushing.locked():
            raise trio.BrokenResourceError("an earlier write was cut off")
        transport = self._transport
        if self._flushing.locked() or not isinstance(transport, TcpStream):
            return False
        self._is_torn = True  # for as long as the next line may fail
        self._is_behind = not transport.send_at_once(self._outgoing.read())
        self._is_torn = False
        return not self._is_behind

    def _seal(self, data: bytes | bytearray | memoryview) -> None:
        n_written = 0
        try:
            while n_written < len(data):
                rest = memoryview(data)[n_written:] if n_written else data
                n_written += self._tls.write(rest)
        except ssl.SSLError as exc:
            raise trio.BrokenResourceError(str(exc)) from exc

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the transport takes more."""
        async with self._flushing:
            await self._transport.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Say goodbye if that goes without waiting for an answer, and close."""
        try:
            with contextlib.suppress(ssl.SSLError, trio.BrokenResourceError):
                with contextlib.suppress(ssl.SSLWantReadError):
                    self._tls.unwrap()
                await self._flush()
        finally:
            await self._transport.aclose()

    async def _feed(self) -> None:
        chunk = await self._transport.receive_some(READ_BYTES)
        if chunk:
            self._incoming.write(chunk)
        else:
            self._incoming.write_eof()

    async def _flush(self) -> None:
        try:
            self._flushing.acquire_nowait()
        except trio.WouldBlock:
            await self._flushing.acquire()
        try:
            if self._is_torn:
                raise trio.BrokenResourceError("an earlier write was cut off")
            self._is_torn = True
            while self._outgoing.pending or self._is_behind:
                self._is_behind = False
                await self._transport.send_all(self._outgoing.read())
            self._is_torn = False
        finally:
            self._flushing.release()
