"""kill -9 of the backbone in mid-answer: workers stay, accounts are completed."""

from dataclasses import replace
from pathlib import Path

import pytest
import trio

from p2pmoe.client import ApiError
from tests.support.generations import (
    PROMPTS,
    Prompt,
    moments,
    texts_of_a_single_process,
)
from tests.support.networks import WORKERS, network_running
from tests.support.trio_test import trio_test

pytestmark = pytest.mark.slow

N_KILLS = 3
N_TOKENS = 1000  # so that it is not over before the kill, however late that comes
MAX_FLOAT_SERVINGS = 4096


@pytest.fixture(scope="module")
def texts() -> dict[Prompt, str]:
    return texts_of_a_single_process()


@trio_test
async def test_b32_workers_outlive_their_backbone_and_are_paid(
    tmp_path: Path, texts: dict[Prompt, str]
) -> None:
    rng = moments(32)
    with trio.fail_after(300):
        async with network_running(tmp_path) as network:
            pids = [network.child(name).pid for name in WORKERS]
            for prompt in PROMPTS[:N_KILLS]:
                generation = network.generate(replace(prompt, max_tokens=N_TOKENS))
                await generation.reached(rng.randrange(1, 26))
                await trio.sleep(rng.uniform(0.0, 0.05))
                await network.kill("backbone")
                with pytest.raises(ApiError):
                    await generation.finished()
                await network.start("backbone")
                await network.ready()
                await network.live(*WORKERS)
                assert (await network.answer(prompt)).text == texts[prompt]
            assert pids == [network.child(name).pid for name in WORKERS]
            assert all(network.child(name).is_running for name in WORKERS)
            for name in WORKERS:  # one that is no faster than others waits for its turn
                while not await network.calls(name):
                    await network.answer(PROMPTS[0])

            books = await network.close_the_books()
            assert books.accepted == books.signed + books.unsigned
            assert books.unsigned <= N_KILLS * len(WORKERS) * MAX_FLOAT_SERVINGS
            assert set(books.receipts) == set(network.peers.values())
            assert books.n_receipts >= books.signed  # complete books are forgotten
