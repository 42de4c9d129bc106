"""GET and BLOB."""

import dataclasses
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.errors import MessageError, UnsendableMessage
from mobile_worker.messages import (
    MAX_PIECE_BYTES,
    BlobError,
    encode_message,
    parse_message,
)
from mobile_worker.messages.blobs import MAX_HOLDERS, pack_holders, unpack_holders
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


@given(st.lists(st.binary(max_size=300), max_size=12))
def test_holders_are_named_by_their_records_up_to_a_bound(records):
    assert unpack_holders(pack_holders(records)) == records[:MAX_HOLDERS]


@given(st.binary(max_size=200))
def test_whatever_names_holders_is_read_or_refused(body):
    with suppress(MessageError):
        assert pack_holders(unpack_holders(body)) == body


def test_more_holders_than_the_bound_are_refused():
    with pytest.raises(MessageError):
        unpack_holders(pack_holders([b"r"]) * (MAX_HOLDERS + 1))
