"""Fetch the relay map: one GET over the same way that leads to the relay.

The answer is bounded before it is read: 8 KiB of head, `MAX_MAP_BYTES` of body, 10 s in
all. Nothing that the server says is believed but the map's own signature, so the
certificate is checked as for any connection to a relay, but it need not be right.
"""

from typing import Final

import trio

from relay.client import ClientSettings
from relay.dial import dial
from relay.endpoint import Endpoint
from relay.errors import ProtocolError, RelayUnreachable
from relay.keys import PeerId
from relay.relay_map import MAX_MAP_BYTES, RelayMap, parse_map

__all__ = ["MAP_PATH", "fetch_map", "parse_answer"]

MAP_PATH: Final = "/map"
_TIMEOUT_S: Final = 10.0
_MAX_HEAD_BYTES: Final = 8 * 1024
_MAX_ANSWER_BYTES: Final = _MAX_HEAD_BYTES + MAX_MAP_BYTES
_READ_BYTES: Final = 16 * 1024


async def fetch_map(
    endpoint: Endpoint, network: PeerId, settings: ClientSettings | None = None
) -> RelayMap | None:
    """Return the map that the relay hands out; None if it has none.

    `settings`: the relay is dialled as a connection with these would be.

    Raises:
        RelayError: the relay cannot be reached, as `relay.dial.dial` says, or hands out
            no map of this network (ProtocolError).
    """
    try:
        with trio.fail_after(_TIMEOUT_S):
            answer = await _get(endpoint, settings or ClientSettings())
    except trio.TooSlowError as exc:
        raise RelayUnreachable(
            f"relay {endpoint.address} does not hand out its map in time",
            peer=endpoint.address,
        ) from exc
    except trio.BrokenResourceError as exc:
        raise RelayUnreachable(
            f"relay {endpoint.address} closed the connection instead of a map",
            peer=endpoint.address,
        ) from exc
    body = parse_answer(answer)
    return None if body is None else parse_map(body, network)


async def _get(endpoint: Endpoint, settings: ClientSettings) -> bytes:
    dialled = await dial(
        endpoint,
        allow_plaintext=settings.allow_plaintext,
        environment=settings.environment,
        fronts=settings.fronts,
    )
    try:
        request = (
            f"GET {MAP_PATH} HTTP/1.1\r\nHost: {_host_header(endpoint)}\r\n"
            "Accept-Encoding: identity\r\nConnection: close\r\n\r\n"
        )
        await dialled.stream.send_all(request.encode("ascii"))
        answer = b""
        while len(answer) <= _MAX_ANSWER_BYTES:
            part = await dialled.stream.receive_some(_READ_BYTES)
            if not part:
                return answer
            answer += part
        raise ProtocolError(f"relay map: an answer above {_MAX_ANSWER_BYTES} bytes")
    finally:
        dialled.transport.close()


def _host_header(endpoint: Endpoint) -> str:
    host, _, port = endpoint.address.rpartition(":")
    return host if port == "443" else endpoint.address


def parse_answer(answer: bytes) -> bytes | None:
    """Return the body of a whole HTTP answer; None for 404.

    Raises:
        ProtocolError: it is no answer, another status, or not as long as it says.
    """
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found or len(head) > _MAX_HEAD_BYTES:
        raise ProtocolError("relay map: the answer is cut short")
    status_line, *lines = head.split(b"\r\n")
    words = status_line.split(b" ", 2)
    if len(words) < 2 or words[0] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise ProtocolError("relay map: the answer is no HTTP")
    if words[1] == b"404":
        return None
    if words[1] != b"200":
        raise ProtocolError(f"relay map: HTTP status {words[1][:8]!r}")
    if _declared_bytes(lines) != len(body):
        raise ProtocolError(f"relay map: {len(body)} bytes of body, not as declared")
    return body


def _declared_bytes(lines: list[bytes]) -> int | None:
    for line in lines:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            number = value.strip()
            if number.isdigit() and len(number) < 10:
                return int(number)
    return None
