import pytest

from ledger.prices import verify_price_table
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import market as wire
from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.market.errors import NoticeRefused, UnknownLease
from p2pmoe.market.lease import TERM_S
from p2pmoe.market.remembered import Remembered
from relay.tokens import Role
from tests.support.market_book import BookWorld, of_type
from tests.support.market_peers import identity_of, make_manifest, record_of

MODEL = make_manifest()
NAME = manifest_hash(MODEL)
ALL = {each.expert for each in MODEL.experts}


def listed(**demand: object) -> BookWorld:
    world = BookWorld()
    world.notice("backbone", MODEL)
    world.demand("backbone", NAME, **demand)
    return world


def test_an_offer_becomes_a_lease_and_counts_only_once_held() -> None:
    world = listed()
    world.offer("w", 3)
    world.after(1)
    lease = world.lease("w")
    assert len(lease.experts) == 3
    assert lease.expires_in_s == TERM_S
    assert world.placement("backbone") == {}
    assert world.held("w", lease) == []
    world.after(0.1)
    assert list(world.placement("backbone").values()) == [set(lease.experts)]


def test_leases_and_placements_carry_the_markets_signed_prices() -> None:
    world = listed()
    world.offer("w", 1)
    world.after(1)
    lease = world.lease("w")
    market = world.peer("market")
    table = verify_price_table(lease.price_table, lease.price_signature, market)
    assert table.manifest_hash == NAME
    placement = of_type(world.sent, wire.Placement)[-1]
    assert placement.price_table == lease.price_table


def test_those_who_join_together_share_what_no_one_holds() -> None:
    world = listed(counts=tuple((e, 10 * n) for n, e in enumerate(sorted(ALL))))
    world.offer("laptop one", 3)
    world.offer("laptop two", 3)
    world.offer("hub", 2, device_class=0)
    world.after(1)
    shares = [world.experts(n) for n in ("laptop one", "laptop two", "hub")]
    assert sum(map(len, shares)) == 8
    assert set.union(*shares) == ALL
    assert shares[2] == set(sorted(ALL)[-2:])


def test_experts_at_hand_come_last() -> None:
    at_hand = tuple(sorted(ALL)[:4])
    world = listed(at_hand=at_hand)
    world.offer("w", 4)
    world.after(1)
    assert world.experts("w") == ALL - set(at_hand)


def test_a_lost_worker_is_out_of_the_placement_at_once_and_replaced() -> None:
    world = listed()
    for name in ("one", "two"):
        world.offer(name, 8, domain=name)
        world.after(1)
    world.offer("three", 8, domain="three")
    world.after(1)
    for name in ("one", "two"):
        world.held(name, world.lease(name))
    world.after(1)
    sends = world.take(world.book.lost(world.peer("one"), world.now))
    assert of_type(sends, wire.Placement)
    assert len(world.placement("backbone")) == 1
    world.after(1)
    assert world.experts("three") == ALL


def test_no_renewal_lapses_and_the_next_renewal_is_unknown() -> None:
    world = listed()
    world.offer("w", 2)
    world.after(1)
    lease = world.lease("w")
    world.held("w", lease)
    world.after(TERM_S * 0.75 - 2)
    world.take(world.book.renew(world.peer("w"), lease.lease, world.now))
    world.after(TERM_S * 0.75)
    assert world.placement("backbone")
    world.after(TERM_S)
    assert world.placement("backbone") == {}
    with pytest.raises(UnknownLease, match="offer again"):
        world.book.renew(world.peer("w"), lease.lease, world.now)


def test_a_renewal_tells_again_what_is_not_held_yet() -> None:
    world = listed()
    world.offer("w", 2)
    world.after(1)
    lease = world.lease("w")
    again = world.book.renew(world.peer("w"), lease.lease, world.now)
    assert of_type(again, wire.Lease) == [lease]
    world.held("w", lease)
    assert world.book.renew(world.peer("w"), lease.lease, world.now) == []


def test_a_worker_that_restarts_gets_its_experts_back_at_once() -> None:
    world = listed()
    world.offer("w", 3)
    world.after(1)
    lease = world.lease("w")
    world.held("w", lease)
    world.take(world.book.lost(world.peer("w"), world.now))
    world.offer("other", 3)
    world.after(1)
    sends = world.offer("w", 3)
    assert of_type(sends, wire.Lease) == [lease]


def test_a_market_that_restarts_gives_everyone_the_same_lease() -> None:
    world = listed()
    world.offer("w", 3)
    world.after(1)
    lease = world.lease("w")
    world.held("w", lease)
    again = BookWorld(Remembered.parse(world.remembered.encode()))
    again.offer("w", 3)
    again.notice("backbone", MODEL)
    again.demand("backbone", NAME)
    again.offer("w", 3)
    again.after(1)
    assert again.lease("w") == lease


def test_a_new_record_reaches_the_backbone() -> None:
    world = listed()
    world.offer("w", 2)
    world.after(1)
    world.held("w", world.lease("w"))
    world.after(1)
    newer = record_of(identity_of("w"), Role.WORKER, sequence=2).encoded
    assert newer not in world.placement("backbone")
    world.offer("w", 2, record=newer)
    world.after(1)
    assert list(world.placement("backbone")) == [newer]


def test_draining_moves_the_work_without_penalty() -> None:
    world = listed()
    world.offer("w", 8)
    world.after(1)
    lease = world.lease("w")
    world.held("w", lease)
    world.after(1)
    world.take(world.book.draining(world.peer("w"), world.now))
    assert world.placement("backbone") == {}
    assert world.book.draining(world.peer("w"), world.now) == []
    world.offer("other", 8)
    world.after(1)
    assert world.experts("other") == ALL
    world.offer("w", 8)
    world.after(1)
    world.held("w", world.lease("w"))
    world.after(1)
    assert len(world.placement("backbone")) == 1


def test_b15_what_is_given_back_is_not_offered_again_nor_replaced() -> None:
    world = listed()
    world.offer("w", 4)
    world.after(1)
    lease = world.lease("w")
    world.held("w", lease)
    back = lease.experts[:2]
    release = wire.Release(lease=lease.lease, experts=back, reason="out of memory")
    world.take(world.book.release(world.peer("w"), release, world.now))
    world.after(1)
    assert list(world.placement("backbone").values()) == [set(lease.experts[2:])]
    assert world.book.roster.workers[world.peer("w")].device.room_bytes == 0


def test_releasing_everything_ends_the_lease() -> None:
    world = listed()
    world.offer("w", 4)
    world.after(1)
    lease = world.lease("w")
    release = wire.Release(lease=lease.lease, experts=(), reason="leaving")
    world.take(world.book.release(world.peer("w"), release, world.now))
    assert len(world.book.leases) == 0


def test_two_backbones_keep_separate_leases() -> None:
    world = listed()
    other = make_manifest(name="other")
    world.notice("second", other)
    world.demand("second", manifest_hash(other))
    world.offer("w", 16)
    world.after(1)
    leases = {m.backbone: m for m in of_type(world.sent, wire.Lease, world.peer("w"))}
    assert set(leases) == {world.peer("backbone"), world.peer("second")}
    assert len({lease.lease for lease in leases.values()}) == 2
    assert all(set(lease.experts) == ALL for lease in leases.values())


def test_a_worker_may_accept_one_model_only() -> None:
    world = listed()
    other = make_manifest(name="other")
    world.offer("w", 16, models=(NAME,))
    world.notice("second", other)
    world.after(1)
    leases = of_type(world.sent, wire.Lease, world.peer("w"))
    assert {lease.manifest_hash for lease in leases} == {NAME}


def test_a_restarted_backbone_is_told_the_placement_and_workers_its_record() -> None:
    world = listed()
    world.offer("w", 2)
    world.after(1)
    world.held("w", world.lease("w"))
    sends = world.notice("backbone", MODEL, sequence=2)
    (placement,) = of_type(sends, wire.Placement)
    assert len(placement.holders) == 1
    (lease,) = of_type(sends, wire.Lease)
    assert set(lease.experts) == set(placement.holders[0].experts)
    serials = [p.serial for p in of_type(world.sent, wire.Placement)]
    assert serials == sorted(set(serials))


def test_b32_a_hundred_restarts_of_the_backbone_change_no_lease() -> None:
    world = listed()
    world.offer("w", 2)
    world.after(1)
    lease = world.lease("w")
    world.held("w", lease)
    for sequence in range(2, 102):
        world.take(world.book.lost(world.peer("backbone"), world.now))
        world.notice("backbone", MODEL, sequence=sequence)
    assert world.experts("w") == set(lease.experts)
    assert world.lease("w").lease == lease.lease


def test_a_silent_backbone_is_given_up_and_its_workers_told() -> None:
    world = listed()
    world.offer("w", 2)
    world.after(1)
    lease = world.lease("w")
    for _ in range(40):
        world.after(20)
        if world.book.roster.listings:
            world.take(world.book.renew(world.peer("w"), lease.lease, world.now))
    (release,) = of_type(world.sent, wire.Release, world.peer("w"))
    assert (release.lease, release.experts) == (lease.lease, ())
    assert not world.book.roster.listings
    sends = world.demand("backbone", NAME)
    assert "send it again" in of_type(sends, wire.Refused)[0].reason


def test_b28_our_own_relay_outage_marks_nobody_dead() -> None:
    world = listed()
    world.offer("w", 2)
    world.after(1)
    lease = world.lease("w")
    world.held("w", lease)
    world.after(1)
    world.book.relay_is_away()
    world.after(10 * TERM_S)
    assert world.placement("backbone")
    world.book.relay_is_back(world.now)
    assert world.take(world.book.gone(world.peer("w"), world.now)) == []
    world.after(5)
    world.book.heard(world.peer("w"))
    world.after(20)
    assert world.placement("backbone")


def test_who_offers_by_a_direct_link_during_an_outage_gets_a_whole_term() -> None:
    world = listed()
    world.offer("w", 2)
    world.after(1)
    world.held("w", world.lease("w"))
    world.book.relay_is_away()
    world.after(2 * TERM_S)
    world.offer("w", 2)
    assert world.lease("w").expires_in_s == TERM_S


def test_who_does_not_come_back_after_the_outage_is_lost() -> None:
    world = listed()
    world.offer("w", 2)
    world.after(1)
    world.held("w", world.lease("w"))
    world.after(1)
    world.book.relay_is_back(world.now)
    world.take(world.book.gone(world.peer("w"), world.now))
    world.after(11)
    assert world.placement("backbone") == {}


def test_a_hub_that_comes_late_takes_the_hottest_and_laptops_move_on() -> None:
    counts = tuple((e, 10 * n + 1) for n, e in enumerate(sorted(ALL)))
    world = listed(counts=counts)
    world.offer("laptop", 4, domain="a")
    world.after(1)
    world.held("laptop", world.lease("laptop"))
    assert world.experts("laptop") == set(sorted(ALL)[4:])
    world.offer("hub", 4, device_class=0, domain="b")
    world.after(1)
    world.held("hub", world.lease("hub"))
    for _ in range(20):
        world.after(5)
        for name in ("laptop", "hub"):
            world.held(name, world.lease(name))
            lease_id = world.lease(name).lease
            world.take(world.book.renew(world.peer(name), lease_id, world.now))
    assert world.experts("hub") == set(sorted(ALL)[4:])
    assert world.experts("laptop") == set(sorted(ALL)[:4])


def test_with_room_a_move_is_made_before_it_is_broken() -> None:
    world = listed()
    world.offer("one", 8, domain="a")
    world.offer("two", 8, domain="b")
    world.after(1)
    for name in ("one", "two"):
        world.held(name, world.lease(name))
    # Now half the model is at hand: both are full, nothing is dropped for it.
    world.demand("backbone", NAME, at_hand=tuple(sorted(ALL)[:4]))
    world.after(30)
    assert world.experts("one") == world.experts("two") == ALL


def test_a_fifth_manifest_of_one_backbone_is_refused() -> None:
    world = BookWorld()
    for n in range(4):
        world.notice("backbone", make_manifest(name=f"m{n}"))
    with pytest.raises(NoticeRefused, match="as many manifests"):
        world.notice("backbone", make_manifest(name="m4"))


def test_held_experts_that_were_never_leased_are_ignored() -> None:
    world = listed()
    world.offer("w", 1)
    world.after(1)
    lease = world.lease("w")
    stranger = ExpertId(9, 9)
    held = wire.Held(lease=lease.lease, experts=(*lease.experts, stranger))
    world.take(world.book.held(world.peer("w"), held, world.now))
    world.after(1)
    assert list(world.placement("backbone").values()) == [set(lease.experts)]
