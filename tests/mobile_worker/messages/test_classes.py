"""Each message type has a class."""

from mobile_worker.messages import MessageType
from mobile_worker.messages.classes import MessageClass, class_of
from relay.frame_types import FrameClass


def test_work_goes_before_bulk_and_control_before_work():
    assert class_of(MessageType.CANCEL) is MessageClass.CONTROL
    assert class_of(MessageType.DISPATCH) is MessageClass.INTERACTIVE
    assert class_of(MessageType.OUTPUT) is MessageClass.INTERACTIVE
    assert class_of(MessageType.BLOB) is MessageClass.BULK


def test_the_numbers_are_the_relays():
    assert {c.name: int(c) for c in MessageClass} == {
        c.name: int(c) for c in FrameClass
    }
