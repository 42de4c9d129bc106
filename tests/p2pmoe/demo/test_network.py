"""Waiting for the demo's network; the whole of it runs in tests/integration."""

from types import SimpleNamespace

import pytest

from p2pmoe.demo.network import DemoNetwork, wait_until_ready
from p2pmoe.local_network.processes import ChildFailed
from tests.support.trio_test import trio_test


class FakeApi:
    def __init__(self, *phases: str) -> None:
        self.phases = list(phases)

    async def readiness(self) -> dict[str, object]:
        phase = self.phases.pop(0) if len(self.phases) > 1 else self.phases[0]
        return {"phase": phase, "covered": 1.0 if phase == "ready" else 0.5}


def child(*, running: bool) -> SimpleNamespace:
    return SimpleNamespace(is_running=running, last_line=lambda: "error: no relay")


@trio_test(autojump=True)
async def test_progress_is_told_until_ready():
    told: list[tuple[str, float]] = []
    api = FakeApi("loading", "covering", "ready")
    await wait_until_ready(api, child(running=True), lambda *step: told.append(step))
    assert [(label, round(share, 6)) for label, share in told] == [
        ("backbone: loading", 0.6),
        ("backbone: covering", 0.6),
        ("backbone: ready", 1.0),
    ]


@trio_test(autojump=True)
async def test_a_backbone_that_ends_is_named():
    with pytest.raises(ChildFailed, match="ended early: error: no relay"):
        await wait_until_ready(FakeApi("loading"), child(running=False), print)


@trio_test(autojump=True)
async def test_coverage_that_never_comes_is_an_error():
    with pytest.raises(ChildFailed, match="not covered within"):
        await wait_until_ready(
            FakeApi("covering"), child(running=True), lambda *_: None
        )


def test_a_worker_is_found_by_its_peer_id():
    hub = SimpleNamespace(name="hub")
    edge = SimpleNamespace(name="edge-1")
    network = DemoNetwork(
        relay=hub,
        backbone=hub,
        workers=(hub, edge),
        names={"aa": "hub", "bb": "edge-1"},
        api=None,
        ledger_folder=None,
    )
    assert network.worker("bb") is edge
