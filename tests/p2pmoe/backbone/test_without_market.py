"""Going on without a market: whom a backbone takes in, and for how long."""

import pytest

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.market import Held, Holder, Placement
from mobile_worker.session.identity import Identity
from p2pmoe.backbone.without_market import WithoutMarket
from relay.tokens import Role
from tests.support.market_peers import SELF_TEST, identity_of, offer_of, record_of

MODEL = bytes(32)
ONE = ExpertId(1, 0)
JOINER = identity_of("joiner")


def placement(*names: str, serial: int = 1) -> Placement:
    return Placement(
        manifest_hash=MODEL,
        serial=serial,
        price_table=b"t",
        price_signature=bytes(64),
        holders=tuple(
            Holder(
                record=record_of(identity_of(name), Role.WORKER).encoded,
                device_class=1,
                experts=(ONE,),
            )
            for name in names
        ),
    )


def without(*names: str, away: bool = True) -> WithoutMarket:
    made = WithoutMarket(SELF_TEST, lambda: 5.0, placement(*names))
    if away:
        made.missed()
    return made


def held(*experts: ExpertId) -> Held:
    return Held(lease=b"lease-01", experts=experts)


def offered(side: WithoutMarket, by: Identity = JOINER, **changes: object):
    side.offered(by.peer_id, offer_of(by, 4, **changes))
    return side.told(by.peer_id)


def test_who_offers_is_told_the_picture_and_counts_once_it_holds() -> None:
    side = without("one")
    assert offered(side) == placement("one")
    picture = side.held(JOINER.peer_id, held(ONE))
    assert picture is not None
    assert [h.experts for h in picture.holders] == [(ONE,), (ONE,)]
    assert side.held(JOINER.peer_id, held(ONE)) is None  # nothing new
    assert offered(side) == picture
    assert side.held(identity_of("who?").peer_id, held(ONE)) is None


def test_while_the_market_is_there_it_is_nobodys_business() -> None:
    side = without("one", away=False)
    assert offered(side) is None
    side.missed()
    assert offered(side) is not None
    side.watch.heard()
    assert offered(side) is None
    nothing = WithoutMarket(SELF_TEST, lambda: 5.0)
    nothing.missed()
    assert offered(nothing) is None


def test_the_markets_next_word_replaces_those_who_joined() -> None:
    side = without("one")
    offered(side)
    side.held(JOINER.peer_id, held(ONE))
    side.placed(placement("two", serial=2))
    assert side.picture() == placement("two", serial=2)
    assert side.held(JOINER.peer_id, held(ONE, ExpertId(1, 1))) is None


def test_a_worker_of_the_placement_that_offers_again_counts_once() -> None:
    side = without("joiner", "one")
    offered(side)
    picture = side.held(JOINER.peer_id, held(ONE, ExpertId(1, 1)))
    assert picture is not None
    assert [len(h.experts) for h in picture.holders] == [1, 2]


@pytest.mark.parametrize(
    "changes",
    [
        {"self_test": b"x" * 32},
        {"role": Role.BACKBONE},
        {"device_class": 9},
        {"record": b"junk"},
    ],
)
def test_b39_who_does_not_fit_is_told_nothing(changes: dict) -> None:
    assert offered(without("one"), **changes) is None


def test_another_ones_record_is_no_offer() -> None:
    side = without("one")
    side.offered(JOINER.peer_id, offer_of(identity_of("other"), 4))
    assert side.told(JOINER.peer_id) is None


def test_so_many_are_taken_in_and_no_more() -> None:
    side = without("one")
    joiners = [identity_of(f"joiner {n}") for n in range(257)]
    told = [offered(side, each) for each in joiners]
    assert told.count(None) == 1
    assert offered(side, joiners[0]) is not None
