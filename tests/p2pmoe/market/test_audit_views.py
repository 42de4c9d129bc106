"""What checks see of the book's tables."""

from random import Random

import pytest

from mobile_worker.expert_id import ExpertId
from p2pmoe.market import audit_views
from p2pmoe.market.audit_views import AuditViews
from tests.support.audited_market import BACKBONE, NAME, AuditedWorld


@pytest.fixture
def world() -> AuditedWorld:
    world = AuditedWorld()
    world.start(["w1", "w2"])
    world.pass_time(5)
    return world


def views_of(world: AuditedWorld) -> AuditViews:
    book = world.book
    return AuditViews(book.roster, book.leases, book.auditing.standings, Random(1))


def test_holders_are_those_with_live_leases(world) -> None:
    listed = views_of(world).listed(NAME)
    assert {view.peer for view in listed.holders} == {
        world.peer("w1"),
        world.peer("w2"),
    }
    assert all(len(view.experts) == 24 for view in listed.holders)
    assert all(view.is_known for view in listed.holders)
    has = listed.backbones[world.peer(BACKBONE)]
    assert not has(ExpertId(0, 0))
    world.demand(BACKBONE, NAME, at_hand=(ExpertId(0, 0),), has_disk=False)
    assert has(ExpertId(0, 0))
    assert not has(ExpertId(0, 1))
    world.demand(BACKBONE, NAME, has_disk=True)
    assert has(ExpertId(0, 1))
    assert not has(ExpertId(77, 1))
    assert views_of(world).listed(b"x" * 32) is None


def test_a_domain_is_where_the_device_is_now_else_where_it_was(world) -> None:
    views, peer = views_of(world), world.peer("w1")
    assert views.domain(peer) == "w1"
    world.book.seen_from(peer, "203.0.113.0/24", world.now)
    assert views.domain(peer) == "net 203.0.113.0/24"
    world.take(world.book.lost(peer, world.now))
    assert views.domain(peer) in {"w1", "net 203.0.113.0/24"}
    assert views.domain(world.peer("nobody")) == ""


def test_voices_say_who_is_known(world) -> None:
    new = world.peer("w9")
    first, second = views_of(world).voices({world.peer("w1"): b"h", new: b"h"})
    assert (first.is_known, first.domain) == (True, "w1")
    assert (second.is_known, second.domain) == (False, "")


def test_candidates_hold_the_expert(world) -> None:
    candidates = views_of(world).candidates()
    holders = candidates.holders(NAME, ExpertId(0, 0))
    assert {each.domain for each in holders} == {"w1", "w2"}
    assert candidates.holders(NAME, ExpertId(77, 0)) == []
    assert candidates.holders(b"x" * 32, ExpertId(0, 0)) == []
    assert candidates.backbones(NAME, ExpertId(0, 0)) == []
    assert candidates.is_backbone(world.peer(BACKBONE))
    assert not candidates.is_backbone(world.peer("w1"))


def test_of_very_many_a_part_is_looked_at(world, monkeypatch) -> None:
    monkeypatch.setattr(audit_views, "_MAX_LEASES", 1)
    seen = set()
    views = views_of(world)
    for _ in range(30):
        (view,) = views.listed(NAME).holders
        seen.add(view.peer)
    assert len(seen) == 2
