import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.market import Demand
from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.market.deployments import (
    Listing,
    content_name,
    expert_of,
    key_of,
    open_notice,
    sign_manifest,
)
from p2pmoe.market.errors import NoticeRefused
from p2pmoe.market.lease import Deployment
from tests.support.market_peers import identity_of, make_manifest
from tests.support.market_prices import flat_prices

BACKBONE = identity_of("backbone")
MODEL = make_manifest()
NAME = manifest_hash(MODEL)
FIRST = ExpertId(0, 0)


def listing() -> Listing:
    prices = flat_prices(BACKBONE, NAME)
    deployment = Deployment(BACKBONE.peer_id, NAME)
    return Listing(deployment, 3, MODEL, MODEL.encode(), prices)


def report(**changes) -> Demand:
    values = {"manifest_hash": NAME, "counts": (), "at_hand": (), "has_disk": True}
    return Demand(**(values | changes))


@given(st.integers(0, 1000), st.integers(0, 0xFFFFFFFF))
def test_keys_name_deployment_and_expert(number: int, packed: int) -> None:
    key = key_of(number, ExpertId.unpack(packed))
    assert key >> 32 == number
    assert expert_of(key).packed == packed


def test_a_signed_manifest_opens_and_its_name_is_its_hash() -> None:
    encoded = MODEL.encode()
    signature = sign_manifest(encoded, BACKBONE.sign)
    assert open_notice(encoded, signature, BACKBONE.peer_id) == MODEL
    assert content_name(encoded) == NAME


def test_nonsense_signed_is_still_nonsense() -> None:
    signature = sign_manifest(b"\xc1", BACKBONE.sign)
    with pytest.raises(NoticeRefused, match="manifest"):
        open_notice(b"\xc1", signature, BACKBONE.peer_id)


def test_a_changed_manifest_and_one_without_experts_are_refused() -> None:
    encoded = MODEL.encode()
    signature = sign_manifest(encoded, BACKBONE.sign)
    other = make_manifest(name="other").encode()
    with pytest.raises(NoticeRefused, match="signature"):
        open_notice(other, signature, BACKBONE.peer_id)
    empty = dataclasses.replace(MODEL, experts=()).encode()
    signature = sign_manifest(empty, BACKBONE.sign)
    with pytest.raises(NoticeRefused, match="no experts"):
        open_notice(empty, signature, BACKBONE.peer_id)


def test_a_backbone_that_changes_its_mind_all_the_time_costs_little() -> None:
    here = listing()
    here.report(report(), 0.0)
    here.wanted(0.0)
    n_ranked = 0
    for n in range(1, 1000):
        at_hand = (FIRST,) if n % 2 else ()
        if here.report(report(at_hand=at_hand), n / 100):
            n_ranked += 1
            here.wanted(n / 100)
    assert n_ranked == 3
    assert here.report(report(), 12.6)  # the last change is not missed


def test_before_a_report_no_disk_is_assumed() -> None:
    assert {(w.floor, w.demand) for w in listing().wanted(0.0)} == {(2, 1.0)}


def test_the_wanted_list_follows_at_once_what_is_at_hand_else_rarely() -> None:
    here = listing()
    assert here.report(report(), 0.0)
    here.wanted(0.0)
    assert not here.report(report(counts=((FIRST, 9),)), 3.0)
    assert here.report(report(at_hand=(FIRST,)), 6.0)
    assert [w.at_hand for w in here.wanted(6.0)] == [True] + [False] * 7
    assert not here.report(report(at_hand=(FIRST,)), 9.0)
    assert here.report(report(at_hand=(FIRST,), has_disk=False), 12.0)
    here.wanted(12.0)
    assert here.report(report(at_hand=(FIRST,), has_disk=False), 42.0)


def test_unknown_experts_in_a_report_are_ignored() -> None:
    here = listing()
    stranger = ExpertId(900, 1)
    here.report(report(counts=((stranger, 9),), at_hand=(stranger,)), 0.0)
    assert {w.demand for w in here.wanted(0.0)} == {1.0}
    assert here.digests_of([stranger]) == []
    assert here.digests_of([FIRST]) == [MODEL.experts[0].digest]


def test_what_people_are_shown_of_a_deployment() -> None:
    shown = listing()
    assert (shown.name, shown.architecture) == (MODEL.name, MODEL.architecture)
    assert (shown.at_hand, shown.has_disk) == (frozenset(), False)
    shown.report(report(at_hand=(FIRST,), n_tokens=5), 10.0)
    shown.report(report(at_hand=(FIRST,), n_tokens=20), 12.0)
    assert (shown.at_hand, shown.has_disk) == ({FIRST}, True)
    assert shown.tokens_s(12.0) == 10.0
