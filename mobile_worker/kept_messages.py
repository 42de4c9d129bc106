"""A few messages kept in a file over a restart: what the market said last.

The file is frames (messages/codec.py), each behind its length (u32, little-endian). It
is replaced whole. It is a hint, not evidence: what cannot be read counts as empty, and
whoever reads it checks the signatures within as if a peer had sent them.
"""

import logging
import struct
from collections.abc import Iterable
from pathlib import Path

from ledger.log.folder import write_whole
from mobile_worker.errors import MessageError
from mobile_worker.messages import Message
from mobile_worker.messages.codec import encode_message, parse_message

__all__ = ["read_messages", "write_messages"]

_LENGTH = struct.Struct("<I")
_MAX_MESSAGES = 4096
_LOG = logging.getLogger("p2pmoe")


def read_messages(path: Path, *, max_bytes: int) -> list[Message]:
    """Return the messages of a file; none if there is none, or it is damaged."""
    try:
        with path.open("rb") as file:
            raw = file.read(max_bytes + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        _LOG.warning("%s is not read: %s", path, (error.strerror or "").lower())
        return []
    try:
        return [parse_message(frame) for frame in _frames(raw, max_bytes)]
    except MessageError as error:
        _LOG.warning("%s is passed over: %s", path, error)
        return []


def write_messages(path: Path, messages: Iterable[Message]) -> None:
    """Replace the file, whole or not at all; blocking.

    Raises:
        OSError: it cannot be written.
        UnsendableMessage: a message cannot be encoded.
    """
    frames = [encode_message(message) for message in messages]
    write_whole(path, b"".join(_LENGTH.pack(len(f)) + f for f in frames))


def _frames(raw: bytes, max_bytes: int) -> list[bytes]:
    if len(raw) > max_bytes:
        raise MessageError(f"more than {max_bytes} bytes")
    frames: list[bytes] = []
    at = 0
    while at < len(raw):
        if len(raw) - at < _LENGTH.size or len(frames) >= _MAX_MESSAGES:
            raise MessageError("cut short, or too many messages")
        (length,) = _LENGTH.unpack_from(raw, at)
        at += _LENGTH.size
        if length > len(raw) - at:
            raise MessageError("cut short")
        frames.append(raw[at : at + length])
        at += length
    return frames
