"""What is said to the market and when; what is believed of a placement."""

import dataclasses

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import (
    Demand,
    Holder,
    ManifestNotice,
    MessageType,
    Placement,
    Refused,
)
from mobile_worker.session.identity import Identity
from mobile_worker.session.records import PeerRecord, sign_record
from p2pmoe.backbone.market_client import MarketClient, MarketTerms
from p2pmoe.backbone.plan import Tier
from relay.tokens import Role

MODEL = bytes(32)
KNOWN = ExpertId(1, 2)


class Rig:
    def __init__(self) -> None:
        self.at_hand: tuple[ExpertId, ...] = ()
        self.client = MarketClient(
            MarketTerms(
                manifest=b"m",
                manifest_hash=MODEL,
                experts=frozenset({KNOWN}),
                signature=bytes(64),
                record=lambda: b"record",
                has_disk=True,
                demand_interval_s=3.0,
            ),
            use=lambda: ((KNOWN, 5),),
            at_hand=lambda: self.at_hand,
        )

    def said(self, now: float) -> list[type]:
        return [type(message) for message in self.client.due(now)]


def placement(serial: int, *holders: Holder, model: bytes = MODEL) -> Placement:
    return Placement(
        manifest_hash=model,
        serial=serial,
        price_table=b"t",
        price_signature=bytes(64),
        holders=holders,
    )


def holder(*experts: ExpertId, device_class: int = 1) -> Holder:
    identity = Identity.generate()
    record = PeerRecord(
        peer_id=identity.peer_id,
        static_key=identity.static_key,
        role=Role.WORKER,
        relays=(),
        direct_addresses=(),
        capabilities=0,
        self_test=bytes(32),
        not_after_us=0,
        sequence=1,
    )
    encoded = sign_record(record, identity.sign).encoded
    return Holder(record=encoded, device_class=device_class, experts=experts)


def test_notice_again_until_placed_and_demand_every_few_seconds() -> None:
    rig = Rig()
    assert rig.said(0.0) == [ManifestNotice, Demand]
    assert rig.said(1.0) == []
    rig.at_hand = (KNOWN,)
    assert rig.said(1.5) == [Demand]
    assert rig.said(4.5) == [Demand]
    assert rig.said(5.0) == [ManifestNotice]
    assert rig.client.take(placement(7)) is not None
    assert rig.said(11.0) == [Demand]
    assert rig.said(126.0) == [ManifestNotice, Demand]


def test_everything_again_when_the_market_is_new() -> None:
    rig = Rig()
    rig.said(0.0)
    rig.client.take(placement(9))
    rig.client.say_again()
    assert rig.said(0.1) == [ManifestNotice, Demand]
    assert rig.client.take(placement(1)) is not None  # its serials begin anew


def refusal(what: MessageType, reason: str = "no") -> Refused:
    return Refused(what=int(what), reason=reason)


def test_a_refused_notice_is_said_again_ever_later_and_told_once() -> None:
    rig = Rig()
    at, pauses = 0.0, []
    for _ in range(6):
        assert rig.said(at) == [ManifestNotice, Demand]
        told = rig.client.refused(refusal(MessageType.MANIFEST), at)
        assert told == (not pauses)
        assert not rig.client.refused(refusal(MessageType.DEMAND), at + 0.1)
        again = at + 0.25
        while not rig.said(again):
            again += 0.25
        pauses.append(again - at)
        at = again + 0.25
        rig.client.say_again()
    assert pauses == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]
    assert rig.client.refused(refusal(MessageType.MANIFEST, "other"), at)
    rig.client.say_again()  # the market is new
    assert rig.said(at) == [ManifestNotice, Demand]
    rig.client.take(placement(1))
    assert rig.client.refused(refusal(MessageType.MANIFEST), at)
    assert rig.said(at + 4.9) == []
    assert rig.said(at + 5.0) == [ManifestNotice, Demand]


def test_a_market_that_knows_nothing_of_us_hears_everything_at_once() -> None:
    rig = Rig()
    rig.said(0.0)
    rig.client.take(placement(9))
    assert rig.client.refused(refusal(MessageType.DEMAND), 1.0)
    assert rig.said(1.25) == [ManifestNotice, Demand]


def test_old_and_foreign_placements_are_ignored() -> None:
    rig = Rig()
    assert rig.client.take(placement(5, model=bytes(31) + b"x")) is None
    assert rig.client.take(placement(5)) is not None
    assert rig.client.take(placement(5)) is None
    assert rig.client.take(placement(4)) is None


def test_b25_unknown_experts_and_bad_records_are_left_out() -> None:
    rig = Rig()
    good = holder(KNOWN, ExpertId(60_000, 1), device_class=0)
    bad = Holder(record=b"nonsense", device_class=1, experts=(KNOWN,))
    placed = rig.client.take(placement(1, good, bad))
    assert placed is not None
    assert len(placed.records) == 1
    assert list(placed.holders.values()) == [(Tier.HUB, [KNOWN])]


def test_tokens_are_counted_by_the_busiest_layer() -> None:
    terms = Rig().client._terms
    rows = ((ExpertId(1, 0), 30), (ExpertId(1, 1), 30), (ExpertId(2, 0), 44))
    for n_chosen, n_tokens in ((1, 60), (4, 15)):
        client = MarketClient(
            dataclasses.replace(terms, n_chosen=n_chosen),
            use=lambda: rows,
            at_hand=tuple,
        )
        assert [m.n_tokens for m in client.due(0.0) if isinstance(m, Demand)] == [
            n_tokens
        ]
