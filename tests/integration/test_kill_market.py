"""kill -9 of the market: serving goes on without it, placement recovers with it."""

from pathlib import Path

import pytest
import trio

from tests.support.generations import PROMPTS, Prompt, texts_of_a_single_process
from tests.support.networks import WORKERS, network_running
from tests.support.trio_test import trio_test

pytestmark = pytest.mark.slow

STAYS_S = 2.0


@pytest.fixture(scope="module")
def texts() -> dict[Prompt, str]:
    return texts_of_a_single_process()


@trio_test
async def test_serving_goes_on_and_leases_come_again(
    tmp_path: Path, texts: dict[Prompt, str]
) -> None:
    with trio.fail_after(300):
        async with network_running(tmp_path) as network:
            generation = network.generate(PROMPTS[0])
            await generation.reached(10)
            await network.kill("market")
            assert (await generation.finished()).text == texts[PROMPTS[0]]

            # A worker that comes back now may find work by itself, after a while
            # (test_without_market.py); the others do not miss the market.
            await network.kill("edge-1")
            await network.start("edge-1")
            assert (await network.answer(PROMPTS[1])).text == texts[PROMPTS[1]]
            await trio.sleep(STAYS_S)
            metrics = await network.metrics()
            live = metrics.by("p2pmoe_worker_status", "worker")
            assert set(live) == set(network.peers.values())

            generation = network.generate(PROMPTS[2])
            await generation.reached(5)
            await network.start("market")
            await network.live(*WORKERS, within_s=60)
            assert (await generation.finished()).text == texts[PROMPTS[2]]
            before = await network.calls("edge-1")
            while await network.calls("edge-1") == before:
                assert (await network.answer(PROMPTS[3])).text == texts[PROMPTS[3]]

            books = await network.close_the_books()
            assert books.accepted == books.n_receipts + books.unsigned
