from mobile_worker.messages import market as wire
from mobile_worker.shards.manifest import manifest_hash
from tests.support.market_book import BookWorld, of_type
from tests.support.market_peers import make_manifest

MODEL = make_manifest(n_layers=1, n_experts=4)
NAME = manifest_hash(MODEL)
DAY = 86_400.0


def listed(**demand: object) -> BookWorld:
    world = BookWorld()
    world.notice("backbone", MODEL)
    world.demand("backbone", NAME, **demand)
    return world


def device(world: BookWorld, name: str):
    return world.book.roster.workers[world.peer(name)].device


def join(world: BookWorld, name: str, slots: int, **changes: object) -> None:
    world.notice("backbone", MODEL)  # it has not gone silent meanwhile
    world.offer(name, slots, **changes)
    world.after(1)
    for lease in of_type(world.sent, wire.Lease, world.peer(name))[-1:]:
        world.held(name, lease)
    world.after(1)


def test_b34_fifty_identities_behind_one_address_are_one_domain() -> None:
    world = listed(has_disk=False)
    for n in range(50):
        peer = world.peer(f"sybil {n}")
        if n % 2:  # the relay's word may come before the offer, or after
            world.book.seen_from(peer, "203.0.113.0/24", world.now)
        join(world, f"sybil {n}", 4, domain=f"site {n}")
        world.book.seen_from(peer, "203.0.113.0/24", world.now)
    states = world.book.assignment.states.values()
    assert {state.coverage.permille for state in states} == {1000}
    assert all(state.is_below_floor for state in states)
    join(world, "honest", 4, domain="site 0")
    assert {state.coverage.permille for state in states} == {1900}


def test_b34_who_lets_its_leases_lapse_is_still_where_the_relay_sees_it() -> None:
    """It stays connected, so the relay has nothing new to say; and it offers again."""
    world = listed()
    for end in (world.book.lost, lambda p, now: world.book.revoke_worker(p, "", now)):
        world.book.seen_from(world.peer("w"), "203.0.113.0/24", world.now)
        join(world, "w", 2, domain="site 1")
        world.take(end(world.peer("w"), world.now))
        join(world, "w", 2, domain="site 2")
        assert device(world, "w").domain == "net 203.0.113.0/24"


def test_where_the_relay_cannot_tell_the_declared_domain_counts() -> None:
    world = listed()
    world.book.seen_from(world.peer("w"), "", world.now)
    join(world, "w", 2, domain="rack 7")
    assert device(world, "w").domain == "rack 7"
    world.book.seen_from(world.peer("w"), "9.9.9.0/24", world.now)
    assert device(world, "w").domain == "net 9.9.9.0/24"
    assert all("net 9.9.9.0/24" in s.coverage for s in holding(world, "w"))
    world.book.seen_from(world.peer("w"), "", world.now)
    world.offer("w", 2, domain="rack 8")
    assert device(world, "w").domain == "rack 8"
    assert all("rack 7" not in s.coverage for s in holding(world, "w"))


def holding(world: BookWorld, name: str):
    states = world.book.assignment.states
    return [states[key] for key in device(world, name).held]


def test_a_device_that_is_rarely_there_counts_for_less() -> None:
    world = listed()
    join(world, "w", 2)
    assert device(world, "w").availability == 900
    for _ in range(20):
        world.take(world.book.lost(world.peer("w"), world.now))
        world.now += DAY
        join(world, "w", 2)
        world.now += 600.0
    world.offer("w", 2)
    assert device(world, "w").availability < 400
    assert {s.coverage.permille for s in holding(world, "w")} == {
        device(world, "w").availability
    }


def test_how_often_a_device_left_is_known_after_a_restart() -> None:
    world = listed()
    for _ in range(9):
        join(world, "w", 2)
        world.take(world.book.lost(world.peer("w"), world.now))
        world.now += DAY
    again = BookWorld(type(world.remembered).parse(world.remembered.encode()))
    again.offer("w", 2)
    assert device(again, "w").availability < 500


def test_a_revoked_worker_is_told_why_and_is_out_at_once() -> None:
    world = listed()
    join(world, "w", 4)
    lease = world.lease("w")
    sends = world.take(
        world.book.revoke_worker(world.peer("w"), "two confirmed mismatches", world.now)
    )
    (release,) = of_type(sends, wire.Release, world.peer("w"))
    assert (release.lease, release.experts) == (lease.lease, ())
    assert release.reason == "two confirmed mismatches"
    assert world.placement("backbone") == {}
    assert len(world.book.leases) == 0
    assert world.book.revoke_worker(world.peer("w"), "again", world.now) == []
    join(world, "other", 4)
    assert len(world.experts("other")) == 4
