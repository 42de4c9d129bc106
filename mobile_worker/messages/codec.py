"""From a message to its frame and back: `encode_message`, `parse_message`.

A frame is parsed in this order: envelope (type, checksum, bounded header), known keys
only, sizes of all tensors and their sum, each value, and only then the message itself,
whose constructor checks that its parts agree. Every refusal is a `MessageError`.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias, cast, get_args

from mobile_worker.errors import MessageError, UnsendableMessage
from mobile_worker.messages.accounts import (
    Countersign,
    File,
    Filed,
    Grant,
    GrantRequest,
    Voucher,
)
from mobile_worker.messages.blobs import Blob, Get
from mobile_worker.messages.envelope import (
    MAX_MESSAGE_BYTES,
    MessageType,
    close_envelope,
    open_envelope,
    tensor_bytes,
)
from mobile_worker.messages.fields import BodyKind, HeaderKind, Kind
from mobile_worker.messages.market import (
    Demand,
    Held,
    Lease,
    ManifestNotice,
    Offer,
    Placement,
    Refused,
    Release,
    Renew,
)
from mobile_worker.messages.membership import Busy, Cancel, Draining, Hello
from mobile_worker.messages.serving import Accept, Dispatch, Output

__all__ = ["MESSAGE_CLASSES", "Message", "encode_message", "parse_message"]

Message: TypeAlias = (
    Accept
    | Blob
    | Busy
    | Cancel
    | Countersign
    | Demand
    | Dispatch
    | Draining
    | File
    | Filed
    | Get
    | Grant
    | GrantRequest
    | Held
    | Hello
    | Lease
    | ManifestNotice
    | Offer
    | Output
    | Placement
    | Refused
    | Release
    | Renew
    | Voucher
)

MESSAGE_CLASSES: Mapping[MessageType, type[Message]] = {
    **{
        message_class.TYPE: message_class
        for message_class in cast("tuple[type[Message], ...]", get_args(Message))
    },
    MessageType.HELLO_ACK: Hello,
}


class _Fields(NamedTuple):
    """The fields of one message class, by where they lie in the frame."""

    names: frozenset[str]
    header: tuple[tuple[str, HeaderKind], ...]
    body: tuple[tuple[str, BodyKind], ...]


def _sort_fields(fields: Mapping[str, Kind]) -> _Fields:
    items = fields.items()
    return _Fields(
        names=frozenset(fields),
        header=tuple((n, k) for n, k in items if isinstance(k, HeaderKind)),
        body=tuple((n, k) for n, k in items if isinstance(k, BodyKind)),
    )


_FIELDS = {c: _sort_fields(c.FIELDS) for c in MESSAGE_CLASSES.values()}


def encode_message(message: Message) -> bytes:
    """Return the frame of a message.

    Raises:
        UnsendableMessage: a value is of the wrong kind or out of range.
    """
    fields = _FIELDS[type(message)]
    header: dict[str, object] = {}
    body: list[bytes] = []
    name = ""
    try:
        for name, kind in fields.header:
            header[name] = kind.check(getattr(message, name))
        for name, body_kind in fields.body:
            packed = body_kind.pack(getattr(message, name))
            if packed is not None:
                header[name] = packed[0]
                body.append(packed[1])
        frame = close_envelope(_type_of(message), header, body)
    except (MessageError, UnicodeEncodeError) as error:
        what = type(message).__name__
        raise UnsendableMessage(f"{what}.{name}: {error}") from error
    if len(frame) > MAX_MESSAGE_BYTES:
        raise UnsendableMessage(f"{type(message).__name__} of {len(frame)} bytes")
    return frame


def parse_message(frame: bytes) -> Message:
    """Return the message of a frame.

    Raises:
        MessageError: the bytes are no message, whatever they are.
    """
    message_type, header, body = open_envelope(frame)
    message_class = MESSAGE_CLASSES.get(message_type)
    if message_class is None:
        raise MessageError(f"message type {message_type.name.lower()} is not in use")
    fields = _FIELDS[message_class]
    if not header.keys() <= fields.names:
        raise MessageError(f"unknown key {min(header.keys() - fields.names):.40}")
    shapes = _tensor_shapes(fields, header, len(body))
    values: dict[str, object] = {}
    name = ""
    at = 0
    try:
        for name, header_kind in fields.header:
            values[name] = header_kind.check(header.get(name))
        for name, body_kind in fields.body:
            shape, size = shapes.get(name, ((), 0))
            values[name] = body_kind.unpack(shape, body[at : at + size])
            at += size
    except MessageError as error:
        raise MessageError(f"{message_class.__name__}.{name}: {error}") from error
    message = cast("Callable[..., Message]", message_class)(**values)
    if _type_of(message) is not message_type:
        raise MessageError(f"{message_type.name.lower()} contradicts its ack flag")
    return message


def _tensor_shapes(
    fields: _Fields, header: Mapping[str, object], n_body: int
) -> dict[str, tuple[tuple[int, ...], int]]:
    """Return dimensions and byte size of each tensor; together they fill the body."""
    shapes = {}
    total = 0
    for name, kind in fields.body:
        if name in header:
            described = header[name]
            size = tensor_bytes(described)
            dtype, *dimensions = cast("tuple[int, ...]", described)
            if dtype != kind.dtype:
                raise MessageError(f"{name} is not of dtype {kind.dtype.name.lower()}")
            shapes[name] = (tuple(dimensions), size)
            total += size
    if total != n_body:
        raise MessageError(f"tensors of {total} bytes in a body of {n_body}")
    return shapes


def _type_of(message: Message) -> MessageType:
    if isinstance(message, Hello) and message.ack:
        return MessageType.HELLO_ACK
    return message.TYPE
