from mobile_worker.messages import market as wire
from mobile_worker.shards.manifest import manifest_hash
from tests.support.market_book import BookWorld, of_type
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
