"""Pages of one relay, one after the other over one connection that is kept open.

The way there is `relay.dial`'s: proxies, pins and fronts as for joining. An answer is
bounded and judged by whoever reads it: 8 KiB of head, a declared length, no coding of
the transfer. Deadlines are the caller's. What a page says is believed nothing here.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import trio

from relay.client import ClientSettings
from relay.dial import Dialled, dial
from relay.endpoint import Endpoint
from relay.errors import ProtocolError, RelayUnreachable

__all__ = ["Head", "PageClient", "PageStream", "parse_head"]

_MAX_HEAD_BYTES: Final = 8 * 1024
_READ_BYTES: Final = 64 * 1024
_END: Final = b"\r\n\r\n"
_MAX_LENGTH_DIGITS: Final = 15


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers, by lower-case name, of an answer; how long its body is."""

    status: int
    headers: Mapping[str, str]
    length: int

    @property
    def keeps_open(self) -> bool:
        """Whether the server will read another request."""
        return self.headers.get("connection", "").strip().lower() == "keep-alive"


def parse_head(raw: bytes, name: str) -> Head:
    """Take the head of an answer apart, without its empty line; `name`: whose.

    Raises:
        ProtocolError: it is no answer, or does not say how long it is.
    """
    status_line, *lines = raw.decode("latin-1").split("\r\n")
    words = status_line.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1."):
        raise ProtocolError(f"{name}: the answer is no HTTP")
    status = words[1]
    if not (status.isascii() and status.isdigit() and len(status) == 3):
        raise ProtocolError(f"{name}: HTTP status {status[:8]!r}")
    parted = (line.partition(":") for line in lines)
    headers = {key.strip().lower(): value.strip() for key, _, value in parted}
    length = headers.get("content-length", "")
    is_length = length.isascii() and length.isdigit()
    if not is_length or len(length) > _MAX_LENGTH_DIGITS:
        raise ProtocolError(f"{name}: the answer does not say how long it is")
    return Head(int(status), headers, int(length))


class _Line:
    """One open connection and what was read of it and not used yet."""

    def __init__(self, dialled: Dialled) -> None:
        self.dialled = dialled
        self.read = bytearray()

    async def more(self, name: str) -> bytes:
        """Return what comes next; RelayUnreachable at the end of the stream."""
        if self.read:
            taken, self.read = bytes(self.read), bytearray()
            return taken
        try:
            part = await self.dialled.stream.receive_some(_READ_BYTES)
        except trio.BrokenResourceError as exc:
            raise RelayUnreachable(f"{name} broke off", peer=name) from exc
        if not part:
            raise RelayUnreachable(f"{name} closed the connection", peer=name)
        return bytes(part)

    async def say(self, request: bytes, name: str) -> None:
        """Write a request; RelayUnreachable if the other side is gone."""
        try:
            await self.dialled.stream.send_all(request)
        except trio.BrokenResourceError as exc:
            raise RelayUnreachable(f"{name} broke off", peer=name) from exc


class PageStream:
    """An answer whose body is still to come."""

    def __init__(self, head: Head, line: _Line, name: str) -> None:
        self.head = head
        self.left = head.length
        self._line = line
        self._name = name

    async def next_chunk(self) -> bytes:
        """Return the next bytes of the body; none at its end.

        Raises:
            RelayUnreachable: the connection ended before it.
        """
        if not self.left:
            return b""
        chunk = await self._line.more(self._name)
        taken, rest = chunk[: self.left], chunk[self.left :]
        self._line.read[:0] = rest
        self.left -= len(taken)
        return taken


class PageClient:
    """Asks one relay for pages; those who ask at the same time wait for each other."""

    def __init__(
        self, endpoint: Endpoint, settings: ClientSettings | None = None
    ) -> None:
        """Dial at the first question, as a connection with `settings` would be."""
        self.name = f"relay {endpoint.address}"
        self._endpoint = endpoint
        self._settings = settings or ClientSettings()
        self._turn = trio.Lock()
        self._line: _Line | None = None
        self.n_dialled = 0

    @asynccontextmanager
    async def get(
        self, path: str, headers: Mapping[str, str]
    ) -> AsyncIterator[PageStream]:
        """Ask for a page, and hold its answer while its body is read.

        Raises:
            RelayError: the relay cannot be reached, as `dial` says, breaks off
                (RelayUnreachable) or answers nonsense (ProtocolError).
        """
        async with self._turn:
            try:
                answer = await self._ask(path, headers)
            except BaseException:
                self.close()
                raise
            try:
                yield answer
            finally:
                if answer.left or not answer.head.keeps_open:
                    self.close()

    def close(self) -> None:
        """Close the connection, if there is one; the next question opens another."""
        if self._line is not None:
            self._line.dialled.transport.close()
            self._line = None

    async def _ask(self, path: str, headers: Mapping[str, str]) -> PageStream:
        if self._line is not None:  # it may have been closed there meanwhile
            try:
                return await self._answer(self._line, path, headers)
            except RelayUnreachable:
                self.close()
        self.n_dialled += 1
        self._line = _Line(
            await dial(
                self._endpoint,
                allow_plaintext=self._settings.allow_plaintext,
                environment=self._settings.environment,
                fronts=self._settings.fronts,
            )
        )
        return await self._answer(self._line, path, headers)

    async def _answer(
        self, line: _Line, path: str, headers: Mapping[str, str]
    ) -> PageStream:
        host, _, port = self._endpoint.address.rpartition(":")
        told = {
            "Host": host if port == "443" else self._endpoint.address,
            "Connection": "keep-alive",
            **headers,
        }
        lines = [f"GET {path} HTTP/1.1", *(f"{k}: {v}" for k, v in told.items())]
        await line.say("\r\n".join(lines).encode("ascii") + _END, self.name)
        raw = bytearray()
        while _END not in raw:
            if len(raw) > _MAX_HEAD_BYTES:
                raise ProtocolError(f"{self.name}: a head above {_MAX_HEAD_BYTES}")
            raw += await line.more(self.name)
        head, _, rest = bytes(raw).partition(_END)
        line.read[:0] = rest
        return PageStream(parse_head(head, self.name), line, self.name)
