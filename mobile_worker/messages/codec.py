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
from mobile_worker.messages.audits import (
    Audit,
    Booked,
    Canary,
    CanaryAnswer,
    Open,
    Opened,
    Paid,
    Recompute,
    Recomputed,
    Standby,
    Standing,
    Verdict,
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
    | Audit
    | Blob
    | Booked
    | Busy
    | Canary
    | CanaryAnswer
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
    | Open
    | Opened
    | Output
    | Paid
    | Placement
    | Recompute
    | Recomputed
    | Refused
    | Release
    | Renew
    | Standby
    | Standing
    | Verdict
    | Voucher
)

MESSAGE_CLASSES: Mapping[MessageType, type[Message]] = {
    **{
        message_class.TYPE: message_class
        for message_class in cast("tuple[type[Message], ...]", get_args(Message))
    },
    MessageType.HELLO_ACK: Hello,
}


_ACKS = frozenset((MessageType.HELLO, MessageType.HELLO_ACK))


class _Fields(NamedTuple):
    """The fields of one message class, by where they lie in the frame."""

    message_class: Callable[..., Message]
    names: frozenset[str]
    header: tuple[tuple[str, Callable[[object], object]], ...]  # and their check
    body: tuple[tuple[str, BodyKind], ...]


def _sort_fields(message_class: type[Message]) -> _Fields:
    fields: Mapping[str, Kind] = message_class.FIELDS
    items = fields.items()
    return _Fields(
        message_class=message_class,
        names=frozenset(fields),
        header=tuple((n, k.check) for n, k in items if isinstance(k, HeaderKind)),
        body=tuple((n, k) for n, k in items if isinstance(k, BodyKind)),
    )


_FIELDS_OF = {c: _sort_fields(c) for c in MESSAGE_CLASSES.values()}
_FIELDS = {number: _FIELDS_OF[c] for number, c in MESSAGE_CLASSES.items()}


def encode_message(message: Message) -> bytes:
    """Return the frame of a message.

    Raises:
        UnsendableMessage: a value is of the wrong kind or out of range.
    """
    fields = _FIELDS_OF[type(message)]
    header: dict[str, object] = {}
    body: list[bytes] = []
    name = ""
    try:
        for name, check in fields.header:
            header[name] = check(getattr(message, name))
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
    fields = _FIELDS.get(message_type)
    if fields is None:
        raise MessageError(f"message type {message_type.name.lower()} is not in use")
    if not header.keys() <= fields.names:
        raise MessageError(f"unknown key {min(header.keys() - fields.names):.40}")
    sizes = _tensor_sizes(fields, header, len(body))
    get = header.get
    values: dict[str, object] = {}
    name = ""
    at = 0
    try:
        for name, check in fields.header:
            values[name] = check(get(name))
        for (name, kind), size in zip(fields.body, sizes, strict=True):
            described = cast("tuple[int, ...]", get(name, ()))
            values[name] = kind.unpack(described[1:], body[at : at + size])
            at += size
    except MessageError as error:
        what = MESSAGE_CLASSES[message_type].__name__
        raise MessageError(f"{what}.{name}: {error}") from error
    message = fields.message_class(**values)
    if message_type in _ACKS and _type_of(message) is not message_type:
        raise MessageError(f"{message_type.name.lower()} contradicts its ack flag")
    return message


def _tensor_sizes(
    fields: _Fields, header: Mapping[str, object], n_body: int
) -> list[int]:
    """Return the bytes of each tensor, 0 if it is left out; they fill the body."""
    sizes = []
    for name, kind in fields.body:
        size = 0
        if name in header:
            described = header[name]
            size = tensor_bytes(described)
            if cast("tuple[int, ...]", described)[0] != kind.dtype:
                raise MessageError(f"{name} is not of dtype {kind.dtype.name.lower()}")
        sizes.append(size)
    total = sum(sizes)
    if total != n_body:
        raise MessageError(f"tensors of {total} bytes in a body of {n_body}")
    return sizes


def _type_of(message: Message) -> MessageType:
    if isinstance(message, Hello) and message.ack:
        return MessageType.HELLO_ACK
    return message.TYPE
