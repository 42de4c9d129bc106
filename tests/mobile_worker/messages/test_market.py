"""Messages with the market: lists of digests, counts and holders."""

import dataclasses

import pytest

from mobile_worker.errors import MessageError, UnsendableMessage
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import Holder, encode_message, market, parse_message
from tests.support.messages import EXAMPLES


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("offer", {"models": (bytes(31),)}),
        ("offer", {"models": [bytes(32)]}),
        ("offer", {"models": (bytes(32),) * 1025}),
        ("offer", {"record": bytes(1025)}),
        ("demand", {"counts": ((1, 2),)}),
        ("demand", {"counts": (ExpertId(0, 0),)}),
        ("demand", {"counts": ((ExpertId(0, 0), -1),)}),
        ("demand", {"counts": None}),
        ("lease", {"experts": (1,)}),
        ("lease", {"backbone": bytes(31)}),
        ("lease", {"price_signature": b""}),
        ("placement", {"holders": [()]}),
        ("placement", {"holders": (b"",)}),
        ("placement", {"holders": None}),
    ],
)
def test_what_cannot_be_sent(name, changes):
    with pytest.raises(UnsendableMessage):
        encode_message(dataclasses.replace(EXAMPLES[name], **changes))


@pytest.mark.parametrize(
    "holder",
    [
        Holder(record=bytes(1025), device_class=0, experts=()),
        Holder(record=b"", device_class=256, experts=()),
        Holder(record=b"", device_class=0, experts=(1,)),
    ],
)
def test_holders_that_cannot_be_sent(holder):
    with pytest.raises(UnsendableMessage):
        encode_message(dataclasses.replace(EXAMPLES["placement"], holders=(holder,)))


def test_holders_cut_short_are_refused():
    kind = type(EXAMPLES["placement"]).FIELDS["holders"]
    _, raw = kind.pack(EXAMPLES["placement"].holders)
    whole = len(raw)
    for n in range(whole):
        try:
            holders = kind.unpack((n,), memoryview(raw[:n]))
        except MessageError:
            continue
        assert kind.pack(holders) is None or kind.pack(holders)[1] == raw[:n]
    with pytest.raises(MessageError):
        kind.unpack((whole, 1), memoryview(raw))


def test_a_placement_of_thousands():
    experts = tuple(ExpertId(layer, 7) for layer in range(60))
    holders = tuple(
        Holder(record=bytes(300), device_class=i % 4, experts=experts)
        for i in range(1000)
    )
    placement = dataclasses.replace(EXAMPLES["placement"], holders=holders)
    assert parse_message(encode_message(placement)) == placement


def test_more_holders_than_any_network_has_are_refused(monkeypatch):
    monkeypatch.setattr(market, "_MAX_HOLDERS", 3)
    kind = type(EXAMPLES["placement"]).FIELDS["holders"]
    for n, is_taken in ((3, True), (4, False)):
        raw = memoryview(bytes(7) * n)
        if is_taken:
            assert len(kind.unpack((len(raw),), raw)) == n
        else:
            with pytest.raises(MessageError):
                kind.unpack((len(raw),), raw)
