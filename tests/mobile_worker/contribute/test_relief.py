"""A worker whose machine lacks the memory holds less, and says so (B15)."""

from pathlib import Path

import pytest
import trio

from mobile_worker import messages
from mobile_worker.contribute import assembly
from mobile_worker.contribute.relief import major_faults
from mobile_worker.messages import MessageType
from tests.support.inline_threads import inline_threads
from tests.support.trio_test import trio_test
from tests.support.worker_stage import open_stage

N_EXPERTS = 8


class Faults:
    """Major faults at a rate that can be changed, by the clock of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rate = 0.0
        self._count, self._at = 0.0, 0.0
        monkeypatch.setattr(assembly, "major_faults", self)

    def __call__(self) -> int:
        now = trio.current_time()
        self._count += self.rate * (now - self._at if self._at else 0)
        self._at = now
        return int(self._count)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    inline_threads(monkeypatch)
    return Faults(monkeypatch)


@trio_test(autojump=True)
async def test_b15_a_worker_that_thrashes_is_given_fewer_experts(
    tmp_path: Path, faults: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_stage(tmp_path) as stage, stage.worker() as running:
        await stage.held()
        assert running.facts[-1].n_held == N_EXPERTS
        faults.rate = 400.0
        await trio.sleep(25)
        (release,) = stage.market.all(messages.Release)
        assert len(release.experts) == 2
        assert "major page faults a second" in release.reason
        assert running.facts[-1].n_held == running.facts[-1].n_leased == 6
        assert running.facts[-1].major_faults_s == pytest.approx(400, rel=0.1)
        assert "2 experts are given back" in caplog.text
        faults.rate = 0.0
        await trio.sleep(120)
        assert len(stage.market.all(messages.Release)) == 1
        assert running.states[-1] == "ready"


@trio_test(autojump=True)
async def test_it_goes_on_giving_back_and_offers_what_is_left(
    tmp_path: Path, faults: Faults
) -> None:
    async with open_stage(tmp_path) as stage, stage.worker() as running:
        worker = await stage.held()
        (offer,) = stage.market.all(messages.Offer)
        faults.rate = 400.0
        await trio.sleep(100)
        assert 3 <= len(stage.market.all(messages.Release)) <= 4
        assert running.facts[-1].n_held < N_EXPERTS // 2
        refused = messages.Refused(what=int(MessageType.RENEW), reason="unknown lease")
        stage.market.node.send(worker, refused)
        await trio.sleep(1)
        assert stage.market.all(messages.Offer)[-1].memory_bytes < offer.memory_bytes


@trio_test(autojump=True)
async def test_a_quiet_worker_keeps_all(tmp_path: Path, faults: Faults) -> None:
    async with open_stage(tmp_path) as stage, stage.worker() as running:
        await stage.held()
        faults.rate = 20.0
        await trio.sleep(300)
        assert not stage.market.all(messages.Release)
        assert running.facts[-1].n_held == N_EXPERTS


def test_this_process_has_a_count() -> None:
    assert major_faults() >= 0
