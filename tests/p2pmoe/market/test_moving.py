import random

from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.market.lease import TERM_S
from tests.support.market_book import BookWorld
from tests.support.market_churn import MIXED, ChurnBook
from tests.support.market_peers import make_manifest

MODEL = make_manifest(n_layers=1, n_experts=4)
NAME = manifest_hash(MODEL)
ALL = {each.expert for each in MODEL.experts}


def settle(world: BookWorld, names: list[str], seconds: int) -> None:
    """Let workers hold whatever they are given, and renew, for some seconds."""
    for _ in range(seconds):
        for name in names:
            lease = world.lease(name)
            world.held(name, lease)
            world.take(world.book.renew(world.peer(name), lease.lease, world.now))
        world.after(1)


def crowded(*, has_disk: bool) -> BookWorld:
    """Two laptops with room for half the model hold the same half; one has more."""
    world = BookWorld()
    world.notice("backbone", MODEL)
    world.demand("backbone", NAME, has_disk=has_disk)
    for name in ("one", "two"):
        world.offer(name, 4, domain=name)
    world.after(1)
    settle(world, ["one", "two"], 2)
    return world


def test_nothing_moves_when_everything_is_where_it_should_be() -> None:
    world = crowded(has_disk=True)
    leases = world.lease("one"), world.lease("two")
    settle(world, ["one", "two"], 2 * TERM_S)
    assert (world.lease("one"), world.lease("two")) == leases


def test_a_move_waits_until_an_expert_has_been_held_long_enough() -> None:
    world = BookWorld()
    world.notice("backbone", MODEL)
    world.demand("backbone", NAME)
    world.offer("one", 2, domain="one")
    world.after(1)
    settle(world, ["one"], 1)
    first = world.experts("one")
    world.offer("hub", 2, domain="hub", device_class=0)
    world.after(3)
    assert world.experts("one") == first
    settle(world, ["one", "hub"], 60)
    assert world.experts("one") | world.experts("hub") == ALL


def test_the_floor_stands_through_every_move() -> None:
    rng = random.Random(5)
    world = BookWorld()
    world.notice("backbone", MODEL)
    world.demand("backbone", NAME, has_disk=False)
    names = [f"w{n}" for n in range(6)]
    for name in names:
        world.offer(name, rng.randint(1, 2), domain=name)
        world.after(1)
    settle(world, names, 1)
    for _ in range(20):
        before = live_counts(world)
        settle(world, names, 5)
        after = live_counts(world)
        assert all(after[e] >= min(2, before[e]) for e in ALL)


def live_counts(world: BookWorld) -> dict:
    placement = world.placement("backbone").values()
    return {e: sum(e in held for held in placement) for e in ALL}


def test_a_worker_lost_in_mid_move_leaves_nothing_behind() -> None:
    world = crowded(has_disk=True)
    world.demand("backbone", NAME, at_hand=tuple(sorted(ALL)[:2]))
    world.after(20)
    for name in ("one", "two"):
        world.take(world.book.lost(world.peer(name), world.now))
    world.after(60)
    states = world.book.assignment.states.values()
    assert all(state.n_replicas == 0 for state in states)


def test_demand_that_jumps_about_moves_few_and_none_to_and_fro() -> None:
    """Four times others are hot, in half an hour; then all stays as it was."""
    world = ChurnBook(1, n_layers=2, n_experts=16, fetch_s=1.0)
    world.join(MIXED, 30)
    world.run(60)
    world.fewest_since_last()
    for _ in range(4):
        before = world.n_fetched
        world.change_demand()
        world.run(240)
        assert world.n_fetched - before < len(world.experts)
        assert min(world.fewest_since_last()) >= 2
    assert world.most_fetches_of_one() <= 2
    world.run(900)
    before = world.n_fetched
    world.run(60)
    assert world.n_fetched == before
