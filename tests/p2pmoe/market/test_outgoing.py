from mobile_worker.messages import market as wire
from mobile_worker.shards.manifest import manifest_hash
from tests.support.market_book import BookWorld, of_type
from tests.support.market_peers import make_manifest

MODEL = make_manifest()


def test_holders_carry_record_class_and_live_experts_only() -> None:
    world = BookWorld()
    world.notice("backbone", MODEL)
    world.demand("backbone", manifest_hash(MODEL))
    world.offer("hub", 2, device_class=0)
    world.offer("idle", 2)
    world.after(1)
    lease = world.lease("hub")
    part = wire.Held(lease=lease.lease, experts=lease.experts[:1])
    world.take(world.book.held(world.peer("hub"), part, world.now))
    world.after(1)
    (holder,) = of_type(world.sent, wire.Placement)[-1].holders
    assert holder.device_class == 0
    assert holder.experts == lease.experts[:1]


def test_serials_only_grow() -> None:
    world = BookWorld()
    for sequence in range(5):
        world.notice("backbone", MODEL, sequence=sequence)
    serials = [p.serial for p in of_type(world.sent, wire.Placement)]
    assert serials == [1, 2, 3, 4, 5]


def test_a_lease_told_again_says_what_is_left_of_its_term() -> None:
    world = BookWorld()
    world.notice("backbone", MODEL)
    world.demand("backbone", manifest_hash(MODEL))
    world.offer("w", 2)
    world.after(1)
    first = world.lease("w")
    granted_at = world.now
    world.after(20)
    world.offer("w", 2)  # it offers again: told again
    again = world.lease("w")
    assert again.experts == first.experts
    elapsed = world.now - granted_at
    assert again.expires_in_s <= first.expires_in_s - elapsed + 1
    assert again.expires_in_s >= 1
