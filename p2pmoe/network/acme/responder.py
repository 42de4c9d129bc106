"""What answers the authority's question on port 80: HTTP-01 (RFC 8555, section 8.3).

The authority asks `GET /.well-known/acme-challenge/TOKEN` for what only the holder of
the account's key can know. Anything else is sent to https. Nobody else is expected
here: a request is 4 KiB at most, within 10 s, and 64 at once.
"""

import re
from collections.abc import Mapping
from typing import Final

import trio

from relay.listening import open_listeners

__all__ = ["answer_to", "respond"]

_MAX_HEAD: Final = 4096
_TIMEOUT_S: Final = 10.0
_MAX_AT_ONCE: Final = 64
_PATH: Final = "/.well-known/acme-challenge/"
_REQUEST: Final = re.compile(rb"(GET|HEAD) (/[!-~]*) HTTP/1\.[01]")
_HOST: Final = re.compile(rb"\r\nhost:[ \t]*([a-z0-9.-]{1,253})(:\d{1,5})?[ \t]*\r\n")


def answer_to(head: bytes, answers: Mapping[str, str]) -> bytes:
    """Return the answer to a request, whole; `answers` by the challenge's token.

    `head`: the request up to and with its empty line.
    """
    line = head.partition(b"\r\n")[0]
    asked = _REQUEST.fullmatch(line)
    if asked is None:
        return _response("400 Bad Request", b"")
    path = asked[2].decode("ascii")
    if path.startswith(_PATH):
        known = answers.get(path.removeprefix(_PATH))
        if known is None:
            return _response("404 Not Found", b"")
        return _response("200 OK", known.encode("ascii"))
    host = _HOST.search(head.lower())
    if host is None:
        return _response("400 Bad Request", b"")
    location = f"Location: https://{host[1].decode('ascii')}{path}\r\n"
    return _response("301 Moved Permanently", b"", location)


def _response(status: str, body: bytes, more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/octet-stream\r\n"
        f"Content-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


async def respond(
    host: str | None,
    port: int,
    answers: Mapping[str, str],
    *,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer until cancelled; `task_status` tells the port, once it is open.

    Raises:
        ListenError: the port is in use, not permitted, or not of this host.
    """
    n_open = 0

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal n_open
        if n_open >= _MAX_AT_ONCE:
            await trio.aclose_forcefully(stream)
            return
        n_open += 1
        try:
            await _serve_one(stream, answers)
        finally:
            n_open -= 1

    opened = await open_listeners(host, port)
    listeners = [
        trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in opened
    ]
    task_status.started(opened[0].getsockname()[1])
    await trio.serve_listeners(serve, listeners)


async def _serve_one(stream: trio.SocketStream, answers: Mapping[str, str]) -> None:
    with trio.move_on_after(_TIMEOUT_S):
        async with stream:
            try:
                head = await _read_head(stream)
                if head:
                    await stream.send_all(answer_to(head, answers))
            except trio.BrokenResourceError:
                return


async def _read_head(stream: trio.SocketStream) -> bytes:
    """Return the request's head; empty if it is too long or breaks off."""
    head = b""
    while b"\r\n\r\n" not in head:
        part = await stream.receive_some(_MAX_HEAD)
        head += part
        if not part or len(head) > _MAX_HEAD:
            return b""
    return head[: head.index(b"\r\n\r\n") + 4]
