"""Fetch a page of a relay: one GET over the same way that leads to it.

The answer is bounded before it is read: 8 KiB of head, the caller's bound for the body,
10 s in all. The certificate is checked as for any connection to a relay; what is to be
believed of a page is the caller's to say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import trio

from relay.client import ClientSettings
from relay.dial import dial
from relay.endpoint import Endpoint
from relay.errors import ProtocolError, RelayUnreachable

__all__ = ["Answer", "Asked", "fetch_page", "parse_page"]

_TIMEOUT_S: Final = 10.0
_MAX_HEAD_BYTES: Final = 8 * 1024
_READ_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked for: a path, printable ASCII, with its query if it has one.

    name: what it is for people. headers: further ones, printable ASCII.
    """

    path: str
    name: str
    max_bytes: int
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what would be another request than the one meant."""
        words = [self.path, *self.headers, *self.headers.values()]
        if not all(word.isascii() and word.isprintable() for word in words):
            raise ValueError(f"no request: {self.path[:80]!r}")
        if not self.path.startswith("/") or " " in self.path:
            raise ValueError(f"no path: {self.path[:80]!r}")


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    body: bytes


async def fetch_page(
    endpoint: Endpoint, asked: Asked, settings: ClientSettings | None = None
) -> Answer:
    """Return what the relay answers, whatever its status.

    `settings`: the relay is dialled as a connection with these would be.

    Raises:
        RelayError: the relay cannot be reached, as `relay.dial.dial` says, or its
            answer is none (ProtocolError).
    """
    try:
        with trio.fail_after(_TIMEOUT_S):
            answer = await _get(endpoint, asked, settings or ClientSettings())
    except trio.TooSlowError as exc:
        raise RelayUnreachable(
            f"relay {endpoint.address} does not hand out its {asked.name} in time",
            peer=endpoint.address,
        ) from exc
    except trio.BrokenResourceError as exc:
        raise RelayUnreachable(
            f"relay {endpoint.address} closed the connection instead of a {asked.name}",
            peer=endpoint.address,
        ) from exc
    return parse_page(answer, asked.name)


async def _get(endpoint: Endpoint, asked: Asked, settings: ClientSettings) -> bytes:
    dialled = await dial(
        endpoint,
        allow_plaintext=settings.allow_plaintext,
        environment=settings.environment,
        fronts=settings.fronts,
    )
    most = _MAX_HEAD_BYTES + asked.max_bytes
    headers = {
        "Host": _host_header(endpoint),
        "Accept-Encoding": "identity",
        "Connection": "close",
        **asked.headers,
    }
    lines = [f"GET {asked.path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    try:
        request = "\r\n".join(lines) + "\r\n\r\n"
        await dialled.stream.send_all(request.encode("ascii"))
        answer = bytearray()
        while len(answer) <= most:
            part = await dialled.stream.receive_some(_READ_BYTES)
            if not part:
                return bytes(answer)
            answer += part
        raise ProtocolError(f"relay {asked.name}: an answer above {most} bytes")
    finally:
        dialled.transport.close()


def _host_header(endpoint: Endpoint) -> str:
    host, _, port = endpoint.address.rpartition(":")
    return host if port == "443" else endpoint.address


def parse_page(answer: bytes, name: str) -> Answer:
    """Take a whole HTTP answer apart; `name` says what of, for people.

    Raises:
        ProtocolError: it is no answer, or not as long as it says.
    """
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found or len(head) > _MAX_HEAD_BYTES:
        raise ProtocolError(f"relay {name}: the answer is cut short")
    status_line, *lines = head.split(b"\r\n")
    words = status_line.split(b" ", 2)
    if len(words) < 2 or words[0] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise ProtocolError(f"relay {name}: the answer is no HTTP")
    if not (words[1].isdigit() and len(words[1]) == 3):
        raise ProtocolError(f"relay {name}: HTTP status {words[1][:8]!r}")
    if _declared_bytes(lines) != len(body):
        raise ProtocolError(f"relay {name}: {len(body)} bytes of body, not as declared")
    return Answer(int(words[1]), body)


def _declared_bytes(lines: list[bytes]) -> int | None:
    for line in lines:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            number = value.strip()
            if number.isdigit() and len(number) < 10:
                return int(number)
    return None
