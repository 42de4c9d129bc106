"""kill -9 of the relay in mid-answer: the answer ends right, everybody comes back."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from tests.support.generations import (
    PROMPTS,
    Generation,
    Prompt,
    moments,
    texts_of_a_single_process,
)
from tests.support.networks import EDGES, WORKERS, Network, network_running
from tests.support.trio_test import trio_test

pytestmark = pytest.mark.slow

N_KILLS = 3
# Who dials in vain waits up to 30 s, and a worker that failed is greeted some s later.
BACK_WITHIN_S = 90.0


@pytest.fixture(scope="module")
def texts() -> dict[Prompt, str]:
    return texts_of_a_single_process()


@trio_test
async def test_b28_a_relay_killed_in_mid_answer_comes_back_with_its_peers(
    tmp_path: Path, texts: dict[Prompt, str]
) -> None:
    rng = moments(28)
    with trio.fail_after(600):
        async with network_running(tmp_path) as network:
            pids = [network.child(name).pid for name in WORKERS]
            for prompt in PROMPTS[:N_KILLS]:
                n_pieces = rng.randrange(5, 26)
                generation = await in_mid_answer(network, prompt, n_pieces)
                await network.kill("relay")
                await trio.sleep(rng.uniform(0.0, 1.5))
                await network.start("relay")
                assert (await generation.finished()).text == texts[prompt]
                await network.live(*WORKERS, within_s=BACK_WITHIN_S)
                await edges_serve(network, prompt, texts[prompt])
            assert pids == [network.child(name).pid for name in WORKERS]
            books = await network.close_the_books()
            assert books.unsigned == 0  # no peer's process ended
            assert books.accepted == books.n_receipts


@trio_test
async def test_all_but_the_backbone_killed_at_once(
    tmp_path: Path, texts: dict[Prompt, str]
) -> None:
    prompt = PROMPTS[0]
    with trio.fail_after(600):
        async with network_running(tmp_path, apart=False) as network:
            for n_pieces in (3, 15):
                generation = await in_mid_answer(network, prompt, n_pieces)
                await each(network.kill, "relay", *WORKERS)
                assert (await generation.finished()).text == texts[prompt]
                await network.start("relay")
                await each(network.start, *WORKERS)
                await network.live(*WORKERS, within_s=BACK_WITHIN_S)
                assert (await network.answer(prompt)).text == texts[prompt]
            books = await network.close_the_books()
            assert books.accepted == books.n_receipts + books.unsigned


async def in_mid_answer(network: Network, prompt: Prompt, n_pieces: int) -> Generation:
    """Return an answer that has come so far, and not to its end.

    One whose end came before this process ran again is asked for anew.
    """
    while True:
        generation = network.generate(prompt)
        await generation.reached(n_pieces)
        if not generation.is_over:
            return generation
        await generation.finished()


async def edges_serve(network: Network, prompt: Prompt, text: str) -> None:
    """Ask until edges have served again: first their vouchers must be signed anew.

    What the relay took with it is said again after some seconds, and nobody serves
    beyond the float; until then hub and disk answer, with the same text.
    """
    before = sum([await network.calls(name) for name in EDGES])
    with trio.fail_after(BACK_WITHIN_S):
        while sum([await network.calls(name) for name in EDGES]) <= before:
            assert (await network.answer(prompt)).text == text


async def each(act: Callable[[str], Awaitable[object]], *names: str) -> None:
    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(act, name)
