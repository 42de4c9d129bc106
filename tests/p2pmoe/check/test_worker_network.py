"""What workers are given, and what becomes of processes that die; no real ones here."""

from types import SimpleNamespace

import pytest
import trio

from mobile_worker.expert_id import ExpertId
from p2pmoe.check import worker_network
from p2pmoe.check.worker_network import run_over_workers, watch, worker_bytes
from p2pmoe.errors import ExpertsUnavailable
from p2pmoe.local_network.processes import ChildFailed
from tests.support.trio_test import trio_test


def local_with(*sizes: int) -> SimpleNamespace:
    by_expert = {ExpertId(0, at): size for at, size in enumerate(sizes)}
    return SimpleNamespace(hot=SimpleNamespace(sizes=by_expert))


def test_a_worker_has_room_for_more_than_its_share():
    gib = 1 << 30
    assert worker_bytes(local_with(*[gib] * 6), 2) == 1.5 * (3 * gib + gib)
    assert worker_bytes(local_with(*[gib] * 6), 6) == 1.5 * 2 * gib


def test_a_worker_of_a_tiny_model_has_room_to_compute():
    assert worker_bytes(local_with(1000, 1000), 2) == 16 << 20
    assert worker_bytes(local_with(), 1) == 16 << 20


def child(name: str, *, running: bool) -> SimpleNamespace:
    return SimpleNamespace(
        name=name,
        is_running=running,
        ending=lambda: f"{name} ended early: error: no room",
    )


class Check:
    def __init__(self, *, covers: bool) -> None:
        self.covers = covers
        self.asked = 0

    async def cover(self, within_s: float) -> None:
        assert within_s == worker_network.FAIL_OVER_WITHIN_S
        self.asked += 1
        if not self.covers:
            raise ExpertsUnavailable("one has none")


@trio_test(autojump=True)
async def test_a_relay_that_ends_ends_the_run():
    relay = child("relay", running=False)
    stage = SimpleNamespace(children=[relay])
    with pytest.raises(ChildFailed, match="relay ended early: error: no room"):
        await watch(stage, relay, Check(covers=True))


@trio_test(autojump=True)
async def test_a_worker_whose_experts_nobody_takes_is_named():
    relay = child("relay", running=True)
    stage = SimpleNamespace(children=[relay, child("worker-2", running=False)])
    with pytest.raises(
        ChildFailed, match=r"worker-2 ended early: .*; no other has room"
    ):
        await watch(stage, relay, Check(covers=False))


@trio_test(autojump=True)
async def test_a_worker_that_others_stand_in_for_is_survived():
    relay = child("relay", running=True)
    stage = SimpleNamespace(children=[relay, child("worker-1", running=False)])
    check = Check(covers=True)

    async def end_later() -> None:
        await trio.sleep(10)
        relay.is_running = False

    with pytest.RaisesGroup(ChildFailed):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_later)
            await watch(stage, relay, check)
    assert check.asked == 1


@pytest.mark.parametrize("running", [True, False])
@trio_test
async def test_without_a_relay_that_is_what_is_told(tmp_path, monkeypatch, running):
    ended: list[float] = []

    class FakeStage:
        def __init__(self, folder) -> None:
            assert folder == tmp_path
            self.children = [child("relay", running=running)]

        async def stop_all(self, within_s: float) -> None:
            ended.append(within_s)

    async def start_relay(stage, *, opening_credit):
        raise ChildFailed("worker-1 ended early: no relay")

    monkeypatch.setattr(worker_network, "Stage", FakeStage)
    monkeypatch.setattr(worker_network, "start_relay", start_relay)
    words = "worker-1 ended" if running else "relay ended early: error: no room"
    with pytest.raises(ChildFailed, match=words):
        await run_over_workers(tmp_path, None, None, lambda *_: None)
    assert ended == [worker_network.STOP_WITHIN_S]
