import pytest

from mobile_worker.shards.errors import ShardMissing
from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.market import roster as roster_module
from p2pmoe.market.admission import admit_offer
from p2pmoe.market.errors import NoticeRefused
from p2pmoe.market.roster import Roster
from tests.support.market_book import BookWorld
from tests.support.market_peers import SELF_TEST, identity_of, make_manifest, offer_of

WORKER = identity_of("worker")


def admitted(slots: int, **changes):
    offer = offer_of(WORKER, slots, **changes)
    return admit_offer(offer, WORKER.peer_id, now_us=0, self_test=SELF_TEST)


def test_a_second_offer_changes_the_room_by_the_difference() -> None:
    roster = Roster()
    worker = roster.enter(admitted(4))
    worker.device.room_bytes -= 300
    assert roster.enter(admitted(6)) is worker
    assert worker.device.room_bytes == 5 * 300
    assert len(roster.workers) == 1


def test_what_a_worker_accepts_follows_its_latest_offer() -> None:
    world = BookWorld()
    model = make_manifest()
    world.notice("backbone", model)
    number = next(iter(world.book.roster.listings.values())).number
    world.offer("w", 1, models=(bytes(32),))
    device = world.book.roster.workers[world.peer("w")].device
    assert device.refuses == {number}
    world.offer("w", 1, models=(manifest_hash(model),))
    assert device.refuses == set()


def test_manifests_are_found_by_hash() -> None:
    world = BookWorld()
    model = make_manifest()
    world.notice("backbone", model)
    roster = world.book.roster
    name, whole = manifest_hash(model).hex(), model.encode()
    assert roster.read_manifest(name, 3, 10) == (len(whole), whole[3:13])
    assert roster.read_manifest(name, len(whole), 10) == (len(whole), b"")
    with pytest.raises(ShardMissing):
        roster.read_manifest(bytes(32).hex(), 0, 10)


def test_one_backbone_may_not_fill_the_market() -> None:
    world = BookWorld()
    for n in range(4):
        world.notice("backbone", make_manifest(name=f"m{n}"))
    with pytest.raises(NoticeRefused):
        world.book.roster.check_room(world.peer("backbone"))
    world.book.roster.check_room(world.peer("other"))


def test_all_manifests_together_name_a_bounded_number_of_experts(monkeypatch) -> None:
    n_experts = len(make_manifest().experts)
    monkeypatch.setattr(roster_module, "_MAX_EXPERTS_OF_ALL", 2 * n_experts)
    world = BookWorld()
    world.notice("backbone", make_manifest(name="m0"))
    world.notice("other", make_manifest(name="m1"))
    with pytest.raises(NoticeRefused, match="finds no room"):
        world.notice("third", make_manifest(name="m2"))
    monkeypatch.setattr(roster_module, "_MAX_EXPERTS_OF_ALL", 99 * n_experts)
    monkeypatch.setattr(roster_module, "_MAX_EXPERTS", n_experts - 1)
    with pytest.raises(NoticeRefused, match="finds no room"):
        world.notice("third", make_manifest(name="m2"))
