"""Who could give a shard that is waited for: hubs first, the backbone last."""

from random import Random

from p2pmoe.market.shard_holders import Sought, seek_shard
from tests.support.market_book import BookWorld
from tests.support.market_peers import SHARD_BYTES, make_manifest


def sought(world: BookWorld, digest: bytes) -> Sought | None:
    book = world.book
    return seek_shard(book.roster, book.leases, digest, Random(1))


def test_a_shard_is_sought_while_a_lease_waits_for_it() -> None:
    world, manifest = BookWorld(), make_manifest(n_layers=1, n_experts=1)
    digest = manifest.experts[0].digest
    world.notice("backbone", manifest)
    world.after(1)
    assert sought(world, digest) is None  # nobody is leased it
    world.offer("hub", 1, device_class=0, domain="a")
    world.after(1)
    found = sought(world, digest)
    assert found == Sought(n_bytes=SHARD_BYTES, peers=(world.peer("backbone"),))
    world.held("hub", world.lease("hub"))
    assert sought(world, digest) is None  # nobody waits any more
    assert sought(world, bytes(32)) is None


def test_those_who_hold_it_are_asked_before_the_backbone() -> None:
    world, manifest = BookWorld(), make_manifest(n_layers=1, n_experts=1)
    world.notice("backbone", manifest)
    world.demand("backbone", b"", has_disk=False)
    names = ["phone", "laptop", "hub", "late"]
    for name, device_class in zip(names, (2, 1, 0, 1), strict=True):
        world.offer(name, 1, device_class=device_class, domain=name)
    lease = _granted(world, manifest, names)
    for name in names[:3]:
        world.held(name, lease[name])
    found = sought(world, manifest.experts[0].digest)
    assert found is not None
    order = [world.peer(name) for name in ("hub", "laptop", "backbone")]
    assert list(found.peers) == order


def _granted(world: BookWorld, manifest, names):
    """Lease the one expert to all, whatever the market would decide."""
    [deployment] = world.book.roster.listings
    expert = manifest.experts[0].expert
    world.after(1)
    leases = {}
    for name in names:
        peer = world.peer(name)
        held = world.book.leases.grant(peer, deployment, [expert], world.now)
        leases[name] = world.book._outgoing.lease(held, world.now).message
    return leases
