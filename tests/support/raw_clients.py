"""HTTP clients on bare sockets, as many and as rude as a test wants.

`ask` sends a request to /v1/completions and leaves the stream open; `answer` reads one
whole answer from it, so that the next request can follow; `until` reads up to some
bytes of it.
"""

import json

import trio

__all__ = ["answer", "ask", "until"]


async def ask(stream: trio.SocketStream, body: dict[str, object]) -> None:
    """Send a request for a completion."""
    content = json.dumps(body).encode()
    head = (
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    await stream.send_all(head.encode() + content)


async def until(stream: trio.SocketStream, sign: bytes) -> bytes:
    """Read until `sign` was read, or the end; what was read."""
    seen = b""
    while sign not in seen:
        part = await stream.receive_some(1 << 16)
        if not part:
            break
        seen += part
    return seen


async def answer(stream: trio.SocketStream) -> tuple[int, bytes]:
    """Read one answer of known length; its status and body."""
    seen = await until(stream, b"\r\n\r\n")
    head, _, body = seen.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    (length,) = (
        int(line.partition(b":")[2])
        for line in lines
        if line.startswith(b"content-length:")
    )
    while len(body) < length:
        part = await stream.receive_some(1 << 16)
        assert part, seen
        body += part
    return int(lines[0].split()[1]), body
