"""An HTTP server of files that is a function: ranges, without a socket or a clock.

`bend` may change or cut what is sent: it gets the host, the file's name and the body of
an answer, and returns another one, or None to break off before it. `is_up` False
refuses connections. Every request is noted.
"""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

import httpx
import trio

from mobile_worker.shards.http_source import HttpSettings

__all__ = ["Asked", "RangeServer"]

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")
Bend = Callable[[str, str, bytes], bytes | None]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: first byte and how many, None for a whole file."""

    host: str
    name: str
    first: int | None
    n_bytes: int


@dataclass(slots=True)
class RangeServer:
    """Serves `files` by name on every host."""

    files: Mapping[str, bytes]
    bend: Bend = lambda _host, _name, body: body
    is_up: bool = True
    asked: list[Asked] = field(default_factory=list)

    def open_client(self, _: HttpSettings | None = None) -> httpx.AsyncClient:
        """Return a client of this server, whatever the address."""
        return httpx.AsyncClient(transport=httpx.MockTransport(self._answer))

    @property
    def n_bytes(self) -> int:
        """Bytes asked for by ranges."""
        return sum(one.n_bytes for one in self.asked if one.first is not None)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        if not self.is_up:
            raise httpx.ConnectError("connection refused")
        host, name = request.url.host, request.url.path.rpartition("/")[2]
        if name not in self.files:
            return httpx.Response(404, stream=_Body(b""))
        whole = self.files[name]
        match = _RANGE.fullmatch(request.headers.get("range", ""))
        first, end = (int(match[1]), int(match[2]) + 1) if match else (0, len(whole))
        self.asked.append(Asked(host, name, first if match else None, end - first))
        body = self.bend(host, name, whole[first:end])
        told = {"content-range": f"bytes {first}-{end - 1}/{len(whole)}"}
        return httpx.Response(
            206 if match else 200, headers=told if match else {}, stream=_Body(body)
        )


class _Body(httpx.AsyncByteStream):
    def __init__(self, body: bytes | None) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await trio.lowlevel.checkpoint()
        if self._body is None:
            raise httpx.ReadError("connection reset")
        yield self._body
