"""Pages over one connection: an answer, and where it says so further requests.

Most answers end their connection, for people's browsers are few. Those with
`keep_alive` (shards: a worker asks for one after the other) leave it open for 10 s of
silence and 10,000 requests: a connection counts at the gate of its address, a request
does not. What a front sends is one request a connection, since the next one there may
be another peer's.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import trio
from websockets.http11 import Request
from websockets.server import ServerProtocol

from relay.defaults import PAGE_TIMEOUT_S, READ_BYTES
from relay.pages import PageRequest, Pages, render_head

__all__ = ["Visit", "visit_pages"]

_MAX_REQUESTS: Final = 10_000
_IDLE_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """Who asks for pages, over which stream, as far as it is known."""

    stream: trio.abc.Stream
    pages: Pages
    remote: str
    forwarded: bool


async def visit_pages(visit: Visit, request: Request) -> None:
    """Answer a request, and those that follow it on the same connection.

    Raises:
        trio.TooSlowError: an answer takes longer than 300 s.
        trio.BrokenResourceError: the other side is gone, or an answer broke off.
    """
    for _ in range(_MAX_REQUESTS):
        with trio.fail_after(PAGE_TIMEOUT_S):
            if not await _answer(visit, request):
                return
        following = await _next_request(visit.stream)
        if following is None:
            return
        request = following


async def _answer(visit: Visit, request: Request) -> bool:
    """Write one answer; True if the connection stays open for another request."""
    path, _, query = request.path.partition("?")
    asked = PageRequest(
        method=request.method,
        path=path,
        query=query,
        headers={k.lower(): v for k, v in request.headers.raw_items()},
        remote=visit.remote,
        forwarded=visit.forwarded,
    )
    async with visit.pages.open(asked) as page:
        goes_on = page.keep_alive and not visit.forwarded and _keeps(asked)
        head = render_head(page, keep_alive=goes_on)
        if asked.method == "HEAD":
            await visit.stream.send_all(head)
        elif page.chunks is None:
            await visit.stream.send_all(head + page.body)
        else:
            await visit.stream.send_all(head)
            async for chunk in page.chunks:
                await visit.stream.send_all(chunk)
        return goes_on


def _keeps(asked: PageRequest) -> bool:
    """Tell whether the client wants the connection to stay open."""
    words = asked.headers.get("connection", "").lower().split(",")
    return "close" not in (word.strip() for word in words)


async def _next_request(stream: trio.abc.Stream) -> Request | None:
    """Read the request that follows; None if there is none, or none that can be read.

    Bounded by the parser: 128 lines of 8 KiB.
    """
    protocol = ServerProtocol()
    # A client that has what it wanted may just leave.
    with trio.move_on_after(_IDLE_S), suppress(trio.BrokenResourceError):
        while True:
            chunk = await stream.receive_some(READ_BYTES)
            if not chunk:
                return None
            protocol.receive_data(chunk)
            events = protocol.events_received()
            if protocol.handshake_exc is not None:
                return None
            if events and isinstance(events[0], Request):
                return events[0]
    return None
