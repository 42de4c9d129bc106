"""What people are shown of the market's book, and that nothing else is."""

import json

from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.network.status import NetworkStatus
from relay.page_sockets import StatusBoard
from tests.support.market_book import BookWorld
from tests.support.market_peers import SHARD_BYTES, identity_of, make_manifest

NETWORK = identity_of("network").peer_id
MODEL = make_manifest(n_layers=2, n_experts=4, name="small")
NAME = manifest_hash(MODEL)


def shown(world: BookWorld) -> NetworkStatus:
    status = NetworkStatus(NETWORK, lambda: world.now)
    status.attach(world.book)
    return status


def serving() -> BookWorld:
    world = BookWorld()
    world.notice("backbone", MODEL)
    world.offer("hub", slots=6, device_class=0)
    world.after(1.0)
    world.held("hub", world.lease("hub"))
    return world


def test_without_a_market_there_is_the_network_alone() -> None:
    status = NetworkStatus(NETWORK, lambda: 0.0)
    assert status.sections() == {"network": {"id": NETWORK.hex()[:8]}}


def test_workers_models_and_coverage() -> None:
    sections = shown(serving()).sections()
    assert sections["workers"] == {
        "n": 1,
        "n_leaving": 0,
        "n_unlisted": 0,
        "classes": {"hub": 1, "laptop": 0, "phone": 0, "browser": 0},
        "memory_bytes": 6 * SHARD_BYTES,
        "listed": [[identity_of("hub").peer_id.hex()[:8], "hub", 6, 1800, False]],
    }
    [model] = sections["models"]
    assert (model["name"], model["n_layers"], model["n_experts"]) == ("small", 2, 8)
    assert (model["n_ready"], model["n_replicas"], model["n_workers"]) == (6, 6, 1)
    assert (model["n_below_floor"], model["overhead_bytes"]) == (8, 0)
    assert model["price_uc"] == 100
    grid = sections["grids"][model["id"]]
    assert (grid["layers"], grid["width"], grid["use"]) == ([0, 1], 4, [])
    assert sorted("".join(grid["copies"])) == list("aabbbbbb")


def test_reports_show_as_tokens_use_and_what_is_at_hand() -> None:
    world = serving()
    status = shown(world)
    hot = ExpertId(1, 3)
    for _ in range(3):
        world.now += 3.0
        counts = ((hot, 60), (ExpertId(0, 0), 30))
        world.demand("backbone", NAME, counts=counts, at_hand=(hot,), n_tokens=30)
    sections = status.sections()
    [model] = sections["models"]
    assert (model["tokens_s"], model["rows_a_token"]) == (10.0, 3)
    assert (model["n_at_hand"], model["has_disk"]) == (1, True)
    grid = sections["grids"][model["id"]]
    assert grid["copies"][1][3] in "AB"
    assert grid["use"][0][0] > grid["use"][0][1]
    assert grid["use"][1][3] > grid["use"][0][0]


def test_what_leaves_is_gone_from_the_grid() -> None:
    world = serving()
    status = shown(world)
    before = status.sections()["grids"]
    assert status.sections()["grids"] == before
    world.take(world.book.draining(world.peer("hub"), world.now))
    assert status.sections()["grids"] == before  # not so soon
    world.now += 1.0
    [grid] = status.sections()["grids"].values()
    assert set("".join(grid["copies"])) == {"a"}
    assert status.sections()["models"][0]["n_workers"] == 0
    world.take(world.book.lost(world.peer("hub"), world.now))
    world.now += 1.0
    assert status.sections()["workers"]["n"] == 0


def test_two_backbones_of_one_model_are_two_and_one_that_left_is_none() -> None:
    world = serving()
    world.notice("other", MODEL)
    status = shown(world)
    ids = [model["id"] for model in status.sections()["models"]]
    assert len(set(ids)) == 2
    world.after(700.0)
    assert status.sections()["models"] == []
    assert status.sections()["grids"] == {}


def test_a_huge_model_has_figures_and_no_grid() -> None:
    world = BookWorld()
    world.notice("backbone", make_manifest(n_layers=2, n_experts=4, name="x" * 100))
    status = shown(world)
    [model] = status._follow(world.book)
    model.n_cells = (1 << 16) + 1
    sections = status.sections()
    assert sections["grids"] == {}
    assert sections["models"][0]["name"] == "x" * 80


def test_at_most_48_workers_are_named_those_with_most_experts() -> None:
    world = BookWorld()
    world.notice("backbone", make_manifest(n_layers=4, n_experts=16))
    world.offer("full", slots=9, device_class=0)
    world.after(1.0)
    world.held("full", world.lease("full"))
    for number in range(60):
        world.offer(f"worker {number}", slots=0)
    workers = shown(world).sections()["workers"]
    assert (workers["n"], workers["n_unlisted"]) == (61, 13)
    assert len(workers["listed"]) == 48
    assert workers["listed"][0][2] == 9


def test_many_workers_are_not_counted_each_second() -> None:
    world = BookWorld()
    for number in range(100):
        world.offer(f"worker {number}", slots=0)
    status = shown(world)
    first = status.sections()["workers"]
    world.offer("late", slots=0)
    world.now += 100 / 5000 - 0.001
    assert status.sections()["workers"] is first
    world.now += 0.002
    assert status.sections()["workers"]["n"] == 101


def test_no_whole_id_no_address_and_no_name_that_is_long() -> None:
    world = serving()
    board = StatusBoard()
    board.update(shown(world).sections())
    text = board.text().decode()
    for name in ("network", "backbone", "hub", "market"):
        assert identity_of(name).peer_id.hex()[:12] not in text
    assert NAME.hex()[:12] not in text
    assert set(json.loads(text)) == {"network", "workers", "models", "grids"}
