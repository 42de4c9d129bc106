"""Answers of a backbone's API as they come, and what they must be: the oracle's."""

import dataclasses
import functools
import itertools
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import trio

from p2pmoe.client import ApiError, Completion, complete
from p2pmoe.demo.network import Api, wait_until_ready
from p2pmoe.local_network.processes import Stage

__all__ = ["PROMPTS", "Generation", "Prompt", "moments", "texts_of_a_single_process"]

_START_WITHIN_S = 120.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What is asked for; sampled, so that a wrong bit would show."""

    text: str = "It was a dark night, and the old man"
    seed: int = 7
    max_tokens: int = 64  # so that it is not over before it is disturbed

    def body(self) -> dict[str, Any]:
        """Return the API request."""
        return {
            "prompt": self.text,
            "max_tokens": self.max_tokens,
            "temperature": 0.8,
            "seed": self.seed,
        }


PROMPTS = (
    Prompt(),
    Prompt(seed=8),
    Prompt(text="The sea was calm when", seed=9),
    Prompt(text="She opened the letter and read:", seed=10),
)


class Generation:
    """One answer as it comes, piece by piece with the time of each."""

    def __init__(self) -> None:
        self.times: list[float] = [time.monotonic()]  # the request's, then each piece's
        self.answer: Completion | None = None
        self.error: ApiError | None = None
        self._changed = trio.Event()
        self._done = trio.Event()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or not."""
        return self._done.is_set()

    @property
    def longest_stall_s(self) -> float:
        """The longest wait for a piece after the first."""
        times = self.times[1:]
        return max((b - a for a, b in itertools.pairwise(times)), default=0.0)

    async def reached(self, n_pieces: int) -> None:
        """Wait until so many pieces have come, or the end."""
        while len(self.times) <= n_pieces and not self.is_over:
            await self._changed.wait()

    async def finished(self) -> Completion:
        """Wait for the whole answer; ApiError if it failed."""
        await self._done.wait()
        if self.error is not None:
            raise self.error
        assert self.answer is not None
        return self.answer

    async def run(self, url: str, prompt: Prompt) -> None:
        """Ask, and keep what comes."""

        def show(_piece: str) -> None:
            trio.from_thread.run_sync(self._came)

        def ask() -> Completion:
            return complete(url, prompt.body(), show=show)

        try:
            self.answer = await trio.to_thread.run_sync(ask, abandon_on_cancel=True)
        except ApiError as error:
            self.error = error
        self._done.set()
        self._tell()

    def _came(self) -> None:
        self.times.append(time.monotonic())
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def moments(seed: int) -> random.Random:
    """Return what draws the moments of kills; P2PMOE_KILL_SEED gives others."""
    return random.Random(os.environ.get("P2PMOE_KILL_SEED", seed))


@functools.cache
def texts_of_a_single_process() -> dict[Prompt, str]:
    """Return what one process without a network writes to PROMPTS: the oracle."""
    with tempfile.TemporaryDirectory() as folder:
        return trio.run(_single_process, Path(folder))


async def _single_process(folder: Path) -> dict[Prompt, str]:
    stage = Stage(folder)
    try:
        child = await stage.start(
            "single",
            [
                *("serve", "pocket", "--listen", "127.0.0.1:0", "--ram", "256M"),
                *("--data", str(folder / "single")),
            ],
        )
        host, port = (await child.ready(_START_WITHIN_S))["listen"]
        api = Api(host, port)
        await wait_until_ready(api, child, lambda *_: None)
        texts = {}
        for prompt in PROMPTS:
            generation = Generation()
            await generation.run(api.url, prompt)
            texts[prompt] = (await generation.finished()).text
        await api.aclose()
    finally:
        await stage.stop_all(3.0)
    return texts
