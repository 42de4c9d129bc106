"""kill -9 of workers at random moments: same text, nothing lost, the store is kept."""

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
from tests.support.networks import WORKERS, Network, network_running
from tests.support.processes import Footprint, footprint
from tests.support.trio_test import trio_test

pytestmark = pytest.mark.slow

N_KILLS = 20
WITHIN_S = 600
MAX_STALL_S = 2.0
IDLE_S = 30.0  # of sockets and threads, until they go
MAX_GROWTH_BYTES = 32 << 20
MAX_FLOAT_SERVINGS = 4096  # of one worker, at one kill


def shards(network: Network, name: str) -> dict[str, int]:
    """Return the inode of each shard in a worker's store; its times tell its use."""
    paths = (network.folder / name / "shards").glob("*.shard")
    return {path.stem: path.stat().st_ino for path in paths}


def pinned_shards(network: Network, name: str, number: int) -> dict[str, int]:
    """Return `shards`, with a second link to each: no other file gets its inode."""
    folder = network.folder / f"pinned-{number}"
    folder.mkdir()
    for path in (network.folder / name / "shards").glob("*.shard"):
        (folder / path.name).hardlink_to(path)
    return {path.stem: path.stat().st_ino for path in folder.iterdir()}


class Killing:
    """Kills one worker in each answer, and starts it again."""

    def __init__(self, network: Network, texts: dict[Prompt, str]) -> None:
        self.network = network
        self.texts = texts
        self.random = moments(20)
        self.killed_at_calls: dict[str, int] = {}
        self.stores: list[tuple[str, dict[str, int]]] = []
        self.stalls: list[float] = []

    async def round(self, number: int) -> None:
        network = self.network
        name = self.random.choice(WORKERS)
        prompt = PROMPTS[number % len(PROMPTS)]
        await network.live(name)
        generation = await self._in_mid_answer(name, prompt)
        self.stores.append((name, pinned_shards(network, name, number)))
        await network.kill(name)
        await network.start(name)
        assert (await generation.finished()).text == self.texts[prompt]
        self.stalls.append(generation.longest_stall_s)

    async def _in_mid_answer(self, name: str, prompt: Prompt) -> Generation:
        """Return an answer at a random moment of it; ask again if we came too late."""
        n_pieces, then_s = self.random.randrange(26), self.random.uniform(0.0, 0.03)
        while True:
            generation = self.network.generate(prompt)
            await generation.reached(n_pieces)
            await trio.sleep(then_s)
            self.killed_at_calls[name] = await self.network.calls(name)
            if not generation.is_over:
                return generation
            assert (await generation.finished()).text == self.texts[prompt]

    async def all_serve_again(self) -> None:
        """Ask until each killed worker has computed more than it had at its end.

        None of them has fetched again what lay in its store.
        """
        for name, before in self.stores:
            assert before.items() <= shards(self.network, name).items()
        with trio.fail_after(120):
            while True:
                calls = {
                    name: await self.network.calls(name)
                    for name in self.killed_at_calls
                }
                if all(calls[name] > n for name, n in self.killed_at_calls.items()):
                    return
                await self.network.answer(PROMPTS[0])


@pytest.fixture(scope="module")
def texts() -> dict[Prompt, str]:
    return texts_of_a_single_process()


@trio_test
async def test_twenty_kills_cost_nothing_but_what_was_unsigned(
    tmp_path: Path, texts: dict[Prompt, str]
) -> None:
    with trio.fail_after(WITHIN_S):
        async with network_running(tmp_path) as network:
            killing = Killing(network, texts)
            for number in range(4):
                await killing.round(number)
            first = footprint(network.child("backbone").pid)
            for number in range(4, N_KILLS):
                await killing.round(number)
            await killing.all_serve_again()
            await assert_nothing_leaked(network.child("backbone").pid, first)
            books = await network.close_the_books()
            assert books.accepted == books.n_receipts + books.unsigned
            assert books.unsigned <= N_KILLS * MAX_FLOAT_SERVINGS
            assert max(killing.stalls) < MAX_STALL_S, killing.stalls


async def assert_nothing_leaked(pid: int, first: Footprint) -> None:
    """Check that a process uses what it did, once idle ones had their time."""
    with trio.move_on_after(IDLE_S):
        while True:
            last = footprint(pid)
            if is_no_more(last, first):
                break
            await trio.sleep(0.5)
    assert is_no_more(last, first), (last, first)
    assert last.resident_bytes <= first.resident_bytes + MAX_GROWTH_BYTES


def is_no_more(last: Footprint, first: Footprint) -> bool:
    """Whether there are no more sockets, and no more threads but two, than before."""
    return last.n_sockets <= first.n_sockets and last.n_threads <= first.n_threads + 2
