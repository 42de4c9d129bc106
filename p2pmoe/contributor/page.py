"""The local page's server: on 127.0.0.1 alone, one request a connection.

Contract: what is asked and answered is `page_rules`; here are the socket, h11 as the
parser, and bounds on time, size and number of what is open. Whatever a client does, the
worker goes on. The port wanted is taken if it is free, else any other: the page is a
convenience, no reason not to work.
"""

import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import h11
import trio

from p2pmoe.contributor.page_file import page_token
from p2pmoe.contributor.page_rules import MAX_BODY_BYTES, Ask
from relay.pages import PageResponse, render_head

__all__ = ["DEFAULT_PORT", "PageAddress", "open_page", "serve_page"]

log = logging.getLogger("p2pmoe.contributor")

DEFAULT_PORT: Final = 8377
_HOST: Final = "127.0.0.1"
_MAX_OPEN: Final = 16  # further ones wait
_WITHIN_S: Final = 10.0  # for a request and its answer
_MAX_HEAD_BYTES: Final = 8 << 10
_CHUNK_BYTES: Final = 16 << 10

Answer = Callable[[Ask], Awaitable[PageResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAddress:
    """Where the page is bound, and its secret."""

    bound: socket.socket
    token: str

    @property
    def url(self) -> str:
        """The address for a browser; whoever has it may do what the page does."""
        return f"http://{_HOST}:{self.bound.getsockname()[1]}/#{self.token}"


def open_page(token_file: Path, port: int = DEFAULT_PORT) -> PageAddress:
    """Bind the page's socket, on another port if this one is taken.

    Raises:
        OSError: no socket can be had, or no token be kept.
    """
    token = page_token(token_file)
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((_HOST, port))
        except OSError:
            bound.bind((_HOST, 0))
        bound.listen(_MAX_OPEN)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return PageAddress(bound=bound, token=token)


async def serve_page(address: PageAddress, answer: Answer) -> None:
    """Serve until cancelled."""
    room = trio.CapacityLimiter(_MAX_OPEN)

    async def handle(stream: trio.SocketStream) -> None:
        async with room, stream:
            with trio.move_on_after(_WITHIN_S):
                await _serve_one(stream, answer)

    listener = trio.SocketListener(trio.socket.from_stdlib_socket(address.bound))
    await trio.serve_listeners(handle, [listener])


async def _serve_one(stream: trio.SocketStream, answer: Answer) -> None:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD_BYTES)
    try:
        ask = await _read(stream, connection)
        if ask is None:
            return
        response = await _answered(ask, answer)
        body = b"" if ask.method == "HEAD" else response.body
        await stream.send_all(render_head(response) + body)
        await stream.send_eof()
    except h11.RemoteProtocolError as error:
        log.debug("no request: %s", error)
    except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
        log.debug("a page's client left: %s", error)


async def _answered(ask: Ask, answer: Answer) -> PageResponse:
    try:
        return await answer(ask)
    except Exception:  # a bug of the page's does not end the worker
        log.exception("the local page failed")
        return PageResponse(status=500, body=b'{"error": "the worker failed at this"}')


async def _read(stream: trio.SocketStream, connection: h11.Connection) -> Ask | None:
    """Return a connection's one request; None if it ends before, or is too long."""
    request: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some(_CHUNK_BYTES))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data) and len(body) <= MAX_BODY_BYTES:
            body += event.data
        elif isinstance(event, h11.EndOfMessage) and request is not None:
            break
        else:
            return None
    return Ask(
        method=request.method.decode("ascii", "replace"),
        path=request.target.decode("ascii", "replace"),
        headers={
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in request.headers
        },
        body=bytes(body),
    )
