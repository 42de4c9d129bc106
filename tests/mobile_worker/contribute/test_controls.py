"""What a person asks of a worker: wishes that overwrite no other, from beside it."""

from pathlib import Path

import pytest
import trio

from mobile_worker.contribute.controls import Controls
from tests.support.inline_threads import inline_threads
from tests.support.trio_test import trio_test
from tests.support.worker_controls import worker_controls
from tests.support.worker_stage import open_stage


def test_a_drain_is_its_own_wish() -> None:
    controls, governor, ended = worker_controls()
    controls.governor.pause(60.0)
    controls.drain()
    controls.governor.resume()
    assert controls.stop.is_set()
    assert governor.wishes == [("pause", 60.0), "resume"]
    controls.end()
    assert ended == ["end"]


@pytest.fixture
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


@pytest.mark.usefixtures("_no_threads")
@trio_test(autojump=True)
async def test_a_real_worker_is_steered_from_beside(tmp_path: Path) -> None:
    seen: list[Controls] = []

    async def beside(controls: Controls) -> None:
        assert controls.peer_id is not None  # it holds its key already
        seen.append(controls)
        await trio.sleep_forever()

    async with open_stage(tmp_path) as stage, stage.worker(beside=beside) as running:
        await stage.held()
        (controls,) = seen
        assert controls.store is not None
        controls.governor.pause(None)
        await trio.sleep(1)
        assert controls.figures.status is not None
        assert controls.figures.status.state == "paused_user"
        controls.governor.resume()
        await trio.sleep(1)
        assert not controls.figures.status.state.is_paused
        controls.drain()
        await trio.sleep(15)
        assert running.settled == [True]
