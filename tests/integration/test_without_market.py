"""The market is killed for good: a worker that comes back finds work all the same."""

from pathlib import Path

import pytest
import trio

from tests.support.generations import PROMPTS, texts_of_a_single_process
from tests.support.networks import network_running
from tests.support.trio_test import trio_test

pytestmark = pytest.mark.slow


@trio_test
async def test_a_worker_that_comes_back_without_a_market_serves_and_is_paid(
    tmp_path: Path,
) -> None:
    texts = await trio.to_thread.run_sync(texts_of_a_single_process)
    with trio.fail_after(480):
        async with network_running(tmp_path, workers=("hub", "edge-1")) as network:
            await network.kill("market")
            await network.kill("edge-1")
            await network.start("edge-1")
            before = await network.calls("edge-1")
            # Seconds of patience, an offer to the backbone, its store.
            await network.live("edge-1", within_s=180)
            while await network.calls("edge-1") == before:
                assert (await network.answer(PROMPTS[0])).text == texts[PROMPTS[0]]

            await network.start("market")
            await network.live("hub", "edge-1", within_s=60)
            assert (await network.answer(PROMPTS[1])).text == texts[PROMPTS[1]]
            books = await network.close_the_books()
            assert books.receipts[network.peers["edge-1"]] > 0
            assert books.accepted == books.n_receipts + books.unsigned
