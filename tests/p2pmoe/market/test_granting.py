import statistics

import pytest

from mobile_worker.device_class import DeviceClass
from mobile_worker.messages import market as wire
from mobile_worker.shards.manifest import manifest_hash
from tests.support.market_book import BookWorld, of_type
from tests.support.market_churn import MIXED, ChurnBook, Kind
from tests.support.market_peers import make_manifest

MODEL = make_manifest()
NAME = manifest_hash(MODEL)


def test_shards_are_recognised_by_hash_under_another_backbone() -> None:
    world = BookWorld()
    world.notice("first", MODEL)
    world.demand("first", NAME)
    world.offer("w", 3)
    world.after(1)
    lease = world.lease("w")
    world.held("w", lease)
    other = BookWorld(world.remembered)
    other.notice("second", MODEL)
    other.demand("second", NAME)
    other.offer("w", 3)
    assert other.lease("w").backbone == other.peer("second")
    assert other.experts("w") == set(lease.experts)


def test_a_smaller_offer_gets_back_only_what_fits() -> None:
    world = BookWorld()
    world.notice("backbone", MODEL)
    world.demand("backbone", NAME)
    world.offer("w", 4)
    world.after(1)
    before = world.experts("w")
    world.held("w", world.lease("w"))
    world.take(world.book.lost(world.peer("w"), world.now))
    world.offer("w", 2)
    assert len(world.experts("w")) == 2
    assert world.experts("w") < before


def test_a_phone_gets_nothing_back_that_it_alone_would_hold() -> None:
    world = BookWorld()
    world.notice("backbone", MODEL)
    world.demand("backbone", NAME, has_disk=False)
    world.offer("laptop", 8, domain="a")
    world.offer("phone", 2, device_class=2, domain="b")
    world.after(1)
    for name in ("laptop", "phone"):
        world.held(name, world.lease(name))
    for name in ("laptop", "phone"):
        world.take(world.book.lost(world.peer(name), world.now))
    sends = world.offer("phone", 2, device_class=2, domain="b")
    assert of_type(sends, wire.Lease) == []


@pytest.mark.parametrize("seed", range(3))
def test_floors_stand_while_thirty_in_a_hundred_leave_within_a_minute(seed) -> None:
    """They leave at random moments; what they held takes 3 s to fetch elsewhere."""
    world = ChurnBook(seed, n_layers=4, n_experts=24, fetch_s=3.0)
    world.join(MIXED, 100)
    world.run(20)
    world.fewest_since_last()
    before = world.n_fetched
    world.run(60, world.leaving(0.3, within_s=60))
    world.run(20)
    assert min(world.fewest_since_last()) >= 2
    assert world.n_fetched < 2 * before
    assert world.most_fetches_of_one() == 1


@pytest.mark.parametrize("seed", range(3))
def test_after_any_churn_phones_hold_the_tail_and_nothing_alone(seed) -> None:
    world = ChurnBook(seed, n_layers=4, n_experts=24, fetch_s=1.0)
    for _ in range(4):
        world.join(MIXED, 25)
        world.run(10, world.leaving(0.2, within_s=10))
        world.change_demand()
    world.run(200)
    states = world.book.assignment.states.values()
    assert all(state.n_replicas > state.n_mobile for state in states)
    by_phones = world.demands_held_by(DeviceClass.PHONE)
    by_hubs = world.demands_held_by(DeviceClass.HUB)
    assert statistics.median(by_phones) < statistics.median(by_hubs)


def test_phones_that_are_left_alone_are_joined_by_the_next_that_stays() -> None:
    world = ChurnBook(5, n_layers=1, n_experts=4, fetch_s=1.0)
    world.join([Kind(DeviceClass.LAPTOP, 1.0, 4)], 1)
    world.join([Kind(DeviceClass.PHONE, 1.0, 4)], 3)
    world.run(10)
    (laptop,) = (d.name for d in world.devices.values() if not d.device_class.is_mobile)
    world.leave(laptop)
    world.run(10)
    alone = [s for s in world.book.assignment.states.values() if s.n_mobile]
    assert alone
    world.join([Kind(DeviceClass.LAPTOP, 1.0, 4)], 1)
    world.run(10)
    assert all(state.n_replicas > state.n_mobile for state in alone)


def test_of_a_full_row_each_waits_for_its_turn(monkeypatch) -> None:
    """None of those who have room takes what is needed: others are asked next time."""
    monkeypatch.setattr("p2pmoe.market.granting._MAX_IN_VAIN", 2)
    world = BookWorld()
    world.notice("backbone", MODEL)
    world.demand("backbone", NAME)
    for n in range(5):
        world.offer(f"small {n}", 0, memory_bytes=1)
    world.after(1)
    world.offer("roomy", 8)
    for _ in range(3):
        world.book.times.assign_soon(world.now)
        world.after(1)
    assert len(world.experts("roomy")) == 8
