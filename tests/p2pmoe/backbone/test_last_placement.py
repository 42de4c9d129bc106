"""The last placement over a restart, of the same model alone."""

from pathlib import Path

import pytest
import trio

from p2pmoe.backbone.last_placement import LastPlacement
from tests.p2pmoe.backbone.test_market_client import MODEL, placement
from tests.support.inline_threads import inline_threads
from tests.support.trio_test import trio_test


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


@trio_test(autojump=True)
async def test_the_newest_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "last"
    last = LastPlacement(path, MODEL)
    assert last.placement is None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(last.run)
        last.said(placement(1))
        last.said(placement(2))
        await trio.sleep(1)
        last.said(placement(3))
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert LastPlacement(path, MODEL).placement == placement(3)
    assert LastPlacement(path, b"x" * 32).placement is None  # another model's


@trio_test(autojump=True)
async def test_a_disk_that_refuses_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    last = LastPlacement(tmp_path / "no folder" / "last", MODEL)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(last.run)
        for serial in range(3):
            last.said(placement(serial))
            await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert [r.levelname for r in caplog.records].count("WARNING") == 1
    await LastPlacement(None, MODEL).run()
