"""Messages about money: bytes pass as they are, within their bounds."""

import dataclasses

import pytest

from ledger.leaf import LEAF_BYTES
from mobile_worker.errors import UnsendableMessage
from mobile_worker.messages import encode_message, parse_message
from tests.support.messages import EXAMPLES


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("voucher", {"leaves": bytes(LEAF_BYTES - 1)}),
        ("voucher", {"worker_signature": b""}),
        ("file", {"worker_signature": bytes(63)}),
        ("countersign", {"backbone_signature": bytes(65)}),
        ("filed", {"status": -1}),
        ("grant", {"grant": bytes(4097)}),
        ("grant_request", {"ceiling_uc": -1}),
        ("grant_request", {"ceiling_uc": 1 << 63}),
    ],
)
def test_what_cannot_be_sent(name, changes):
    with pytest.raises(UnsendableMessage):
        encode_message(dataclasses.replace(EXAMPLES[name], **changes))


def test_many_leaves_travel():
    voucher = dataclasses.replace(EXAMPLES["voucher"], leaves=bytes(LEAF_BYTES * 5000))
    assert parse_message(encode_message(voucher)) == voucher
