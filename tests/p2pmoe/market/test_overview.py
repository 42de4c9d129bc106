from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.market.overview import Overview, OverviewNews, overview_of
from tests.support.market_book import BookWorld
from tests.support.market_peers import SHARD_BYTES, make_manifest

MODEL = make_manifest(n_layers=1, n_experts=4)


def seen(world: BookWorld) -> Overview:
    (listing,) = world.book.roster.listings.values()
    return overview_of(listing, world.book.leases, world.book.assignment)


def test_copies_cost_what_is_beyond_one_of_each() -> None:
    world = BookWorld()
    world.notice("backbone", MODEL)
    world.demand("backbone", manifest_hash(MODEL), has_disk=False)
    assert seen(world).n_below_floor == 4
    for name, slots in (("a", 4), ("b", 4), ("c", 2)):
        world.offer(name, slots, domain=name)
        world.after(1)
        world.held(name, world.lease(name))
    found = seen(world)
    assert (found.n_ready, found.n_replicas) == (4, 10)
    assert found.overhead_bytes == 6 * SHARD_BYTES
    assert found.n_below_floor == 2  # two laptops are there less than twice


def test_in_words() -> None:
    overview = Overview(
        n_experts=8,
        n_ready=7,
        n_replicas=12,
        n_below_floor=3,
        overhead_bytes=5 << 20,
    )
    assert overview.line("m") == (
        "m: 7 of 8 experts on workers, 12 copies, 5.0 MiB beyond one of each, "
        "3 below their floor"
    )


def test_only_what_has_changed_is_told() -> None:
    world, news = BookWorld(), OverviewNews()
    world.notice("backbone", MODEL)
    world.demand("backbone", manifest_hash(MODEL))
    book = world.book

    def told() -> list[str]:
        listings = book.roster.listings.values()
        return news.take(listings, book.leases, book.assignment)

    nobody = "m: 0 of 4 experts on workers, 0 copies, 0.0 MiB beyond one of each"
    assert (told(), told()) == ([nobody], [])
    world.offer("w", 3)
    world.after(1)
    world.held("w", world.lease("w"))
    assert told() == [
        "m: 3 of 4 experts on workers, 3 copies, 0.0 MiB beyond one of each"
    ]
