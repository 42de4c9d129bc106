"""HELLO, DRAINING, BUSY, CANCEL."""

import dataclasses

import pytest

from mobile_worker.errors import UnsendableMessage
from mobile_worker.messages import Draining, encode_message, parse_message
from tests.support.messages import EXAMPLES


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("hello", {"versions": ()}),
        ("hello", {"tab": bytes(7)}),
        ("hello", {"manifest_hash": bytes(33)}),
        ("hello", {"ack": 1}),
        ("busy", {"retry_ms": -1}),
        ("draining", {"reason": "ä" * 101}),
        ("draining", {"reason": "\ud800"}),
    ],
)
def test_what_cannot_be_sent(name, changes):
    with pytest.raises(UnsendableMessage):
        encode_message(dataclasses.replace(EXAMPLES[name], **changes))


def test_reasons_are_text_of_any_language():
    message = Draining(reason="Deckel zugeklappt — 休眠")
    assert parse_message(encode_message(message)) == message
