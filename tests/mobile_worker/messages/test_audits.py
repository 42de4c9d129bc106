"""Messages of audits, standing and standby pay: what cannot be sent."""

import dataclasses

import pytest

from mobile_worker.errors import UnsendableMessage
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import (
    MAX_CANARY_EXPERTS,
    encode_message,
    parse_message,
)
from tests.support.messages import EXAMPLES


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("canary", {"seed": bytes(31)}),
        ("canary", {"experts": (ExpertId(0, 0),) * (MAX_CANARY_EXPERTS + 1)}),
        ("canary_answer", {"hashes": bytes(17)}),
        ("canary_answer", {"hashes": bytes(16 * (MAX_CANARY_EXPERTS + 1))}),
        ("opened", {"rows": bytes((8 << 20) + 1)}),
        ("recompute", {"expert": (ExpertId(0, 0), ExpertId(0, 1))}),
        ("recompute", {"avoid": bytes(33)}),
        ("recomputed", {"out_hash": bytes(15)}),
        ("audit", {"outcome": 256}),
        ("audit", {"counts": ((1, 2),)}),
        ("verdict", {"referees": bytes(31)}),
        ("standing", {"detail": "x" * 201}),
        ("paid", {"from_us": -1}),
        ("standby", {"signature": b""}),
        ("booked", {"name": bytes(31)}),
    ],
)
def test_what_cannot_be_sent(name, changes):
    with pytest.raises(UnsendableMessage):
        encode_message(dataclasses.replace(EXAMPLES[name], **changes))


@pytest.mark.parametrize("name", ["canary", "opened", "verdict", "paid", "standing"])
def test_there_and_back(name):
    assert parse_message(encode_message(EXAMPLES[name])) == EXAMPLES[name]
