"""What the processes of a local network are told; they run in tests/integration."""

import pytest

from p2pmoe.local_network.network import WorkerOptions, start_relay, start_worker
from p2pmoe.local_network.processes import ChildFailed
from tests.support.trio_test import trio_test


class FakeChild:
    def __init__(self, name: str, report: dict[str, object] | None) -> None:
        self.name = name
        self.report = report

    async def ready(self, within_s: float) -> dict[str, object]:
        assert within_s > 0
        if self.report is None:
            raise ChildFailed(f"{self.name} ended early: error: no room")
        return self.report


class FakeStage:
    def __init__(self, folder, report: dict[str, object] | None) -> None:
        self.folder = folder
        self.report = report
        self.started: list[tuple[str, list[str]]] = []

    async def start(self, name: str, arguments: list[str]) -> FakeChild:
        self.started.append((name, list(arguments)))
        return FakeChild(name, self.report)


@trio_test
async def test_a_relay_lends_what_it_is_told_and_gives_its_invite(tmp_path):
    stage = FakeStage(tmp_path, {"invite": "there/invite.json"})
    relay = await start_relay(stage, opening_credit=12)
    assert (relay.invite, relay.folder) == ("there/invite.json", tmp_path / "relay")
    [(name, arguments)] = stage.started
    assert name == relay.child.name == "relay"
    assert arguments[arguments.index("--opening-credit") + 1] == "12"
    assert arguments[arguments.index("--listen") + 1] == "127.0.0.1:0"


@trio_test
async def test_a_relay_that_ends_early_is_named(tmp_path):
    with pytest.raises(ChildFailed, match="relay ended early"):
        await start_relay(FakeStage(tmp_path, None), opening_credit=1)


@trio_test
async def test_a_worker_has_a_domain_and_a_folder_of_its_own(tmp_path):
    stage = FakeStage(tmp_path, {})
    await start_worker(stage, "edge", "invite", WorkerOptions(memory="5M", disk="6M"))
    await start_worker(stage, "hub", "invite", WorkerOptions(memory="8M", hub=True))
    (_, edge), (_, hub) = stage.started
    assert edge[edge.index("--memory") + 1 :][:3] == ["5M", "--disk", "6M"]
    assert edge[edge.index("--domain") + 1] == "edge"
    assert edge[edge.index("--data") + 1] == str(tmp_path / "edge")
    assert "--hub" not in edge
    assert hub[hub.index("--hub") + 1 :] == ["--listen", "127.0.0.1:0"]
