"""Whole messages on a stream socket: length, kind, body; blocking, for threads.

A length beyond MAX_FRAME_BYTES is refused before anything is allocated. The end of the
stream between frames is None, within one it is an error.
"""

import socket
import struct

from p2pmoe.backbone.mapped.messages import MAX_FRAME_BYTES, Kind, MessageMalformed

__all__ = ["read_frame", "send_frame"]

_HEAD = struct.Struct("<IB")


def send_frame(link: socket.socket, kind: Kind, body: bytes) -> None:
    """Send one message; OSError if nobody reads any more.

    Raises:
        MessageMalformed: it is longer than the other side takes; nothing was sent.
    """
    if len(body) >= MAX_FRAME_BYTES:
        raise MessageMalformed(f"a message of {len(body)} bytes is too long")
    link.sendall(_HEAD.pack(1 + len(body), kind) + body)


def read_frame(link: socket.socket) -> tuple[Kind, memoryview] | None:
    """Return the next message, None at the end.

    Raises:
        MessageMalformed: a length or kind that there is not, or an end in mid-message.
        OSError: the socket is broken.
    """
    head = _read(link, _HEAD.size)
    if head is None:
        return None
    length, number = _HEAD.unpack(head)
    if not 1 <= length <= MAX_FRAME_BYTES:
        raise MessageMalformed(f"a message of {length} bytes")
    try:
        kind = Kind(number)
    except ValueError as exc:
        raise MessageMalformed(f"a message of kind {number}") from exc
    body = _read(link, length - 1)
    if body is None:
        raise MessageMalformed("the stream ends within a message")
    return kind, body


def _read(link: socket.socket, n_bytes: int) -> memoryview | None:
    """Return so many bytes; None if the stream ends before the first."""
    place = memoryview(bytearray(n_bytes))
    filled = 0
    while filled < n_bytes:
        n = link.recv_into(place[filled:])
        if not n:
            if filled:
                raise MessageMalformed("the stream ends within a message")
            return None
        filled += n
    return place.toreadonly()
