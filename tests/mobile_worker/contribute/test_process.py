"""Signals in, exit codes out; over a memory network, with real signals."""

import os
import signal
from pathlib import Path

import pytest
import trio

from mobile_worker import messages
from mobile_worker.contribute.process import run_worker
from mobile_worker.contribute.service import Hooks
from mobile_worker.shards.errors import StoreUnusable
from tests.support.inline_threads import inline_threads
from tests.support.trio_test import trio_test
from tests.support.worker_stage import Stage, open_stage, proven


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


async def run_and_signal(
    stage: Stage, *signals: signal.Signals
) -> tuple[int, list[messages.Release]]:
    hooks = Hooks(
        open_node=lambda node: stage.network.open_node(node, clock=stage.clock),
        prove=proven,
        clock=stage.clock,
    )
    codes = []
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            codes.append(await run_worker(stage.settings(), hooks))

        nursery.start_soon(run)
        await stage.held()
        for number in signals:
            os.kill(os.getpid(), number)
            await trio.sleep(0.01)
    return codes[0], stage.market.all(messages.Release)


@trio_test(autojump=True)
async def test_sigterm_drains_and_ends_with_0(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        code, releases = await run_and_signal(stage, signal.SIGTERM)
        assert (code, len(releases)) == (0, 1)


@trio_test(autojump=True)
async def test_sigint_drains_and_ends_with_130(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        code, releases = await run_and_signal(stage, signal.SIGINT)
        assert (code, len(releases)) == (130, 1)


@trio_test(autojump=True)
async def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        code, _ = await run_and_signal(stage, signal.SIGTERM, signal.SIGINT)
        assert code == 130


@trio_test(autojump=True)
async def test_what_ends_it_comes_out_as_itself(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        (tmp_path / "worker").mkdir()
        (tmp_path / "worker" / "shards").write_text("")
        with pytest.raises(StoreUnusable):
            await run_worker(stage.settings())
