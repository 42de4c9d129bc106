"""Which of three classes a message travels in, unless its sender says otherwise.

Control goes before interactive, interactive before bulk, at every queue on the way.
"""

from collections.abc import Mapping
from enum import IntEnum

from mobile_worker.messages.envelope import MessageType

__all__ = ["MessageClass", "class_of"]


class MessageClass(IntEnum):
    """In order of precedence; the numbers are the relay's."""

    CONTROL = 0
    INTERACTIVE = 1
    BULK = 2


_CLASSES: Mapping[MessageType, MessageClass] = {
    MessageType.DISPATCH: MessageClass.INTERACTIVE,
    MessageType.OUTPUT: MessageClass.INTERACTIVE,
    MessageType.OFFER: MessageClass.INTERACTIVE,
    MessageType.LEASE: MessageClass.INTERACTIVE,
    MessageType.HELD: MessageClass.INTERACTIVE,
    MessageType.RELEASE: MessageClass.INTERACTIVE,
    MessageType.GRANT_REQUEST: MessageClass.INTERACTIVE,
    MessageType.VOUCHER: MessageClass.BULK,
    MessageType.FILE: MessageClass.BULK,
    MessageType.MANIFEST: MessageClass.BULK,
    MessageType.DEMAND: MessageClass.BULK,
    MessageType.PLACEMENT: MessageClass.BULK,
    MessageType.BLOB: MessageClass.BULK,
    MessageType.CANARY: MessageClass.INTERACTIVE,
    MessageType.CANARY_ANSWER: MessageClass.INTERACTIVE,
    MessageType.OPENED: MessageClass.BULK,
    MessageType.RECOMPUTE: MessageClass.BULK,
    MessageType.AUDIT: MessageClass.BULK,
    MessageType.PAID: MessageClass.BULK,
    MessageType.STANDBY: MessageClass.BULK,
}


def class_of(message_type: MessageType) -> MessageClass:
    """Return the default class of a type of message; control if it is always small."""
    return _CLASSES.get(message_type, MessageClass.CONTROL)
