"""Outcomes are plain values."""

from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.outcomes import Delivered, Failed


def test_they_compare_by_value():
    assert Delivered(b"m", MessageClass.BULK) == Delivered(b"m", MessageClass.BULK)
    assert Failed(1) != Failed(2)
