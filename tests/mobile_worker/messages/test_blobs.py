"""GET and BLOB."""

import dataclasses

import pytest

from mobile_worker.errors import UnsendableMessage
from mobile_worker.messages import (
    MAX_PIECE_BYTES,
    BlobError,
    encode_message,
    parse_message,
)
from tests.support.messages import EXAMPLES


def test_a_blob_without_a_body_says_why():
    blob = dataclasses.replace(EXAMPLES["blob"], error=BlobError.UNKNOWN, body=b"")
    parsed = parse_message(encode_message(blob))
    assert BlobError(parsed.error) is BlobError.UNKNOWN
    assert parsed.body == b""


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("blob", {"body": bytes(MAX_PIECE_BYTES + 1)}),
        ("blob", {"digest": b""}),
        ("get", {"offset": -1}),
        ("get", {"length": 1 << 32}),
    ],
)
def test_what_cannot_be_sent(name, changes):
    with pytest.raises(UnsendableMessage):
        encode_message(dataclasses.replace(EXAMPLES[name], **changes))
