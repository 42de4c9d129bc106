"""A worker that stalls now and then, and workers that are killed; for bench-wan."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import trio

from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.wan_network import Backbone, WanNetwork
from tests.benchmarks.wan_requests import Asked, Run, joined, stream_gaps, together
from tests.support.injector.conditions import Link, Path

__all__ = ["STALLING", "Killing", "hedging"]

_STALL_EVERY, _STALL_S = 50, 0.2  # 2 % of what it sends
STALLING = Link(
    up=Path(delay_s=0.0017, stall_every=_STALL_EVERY, stall_s=_STALL_S),
    down=Path(delay_s=0.0017),
)
_HEDGE_TARGET, _EXTRA_TARGET = 5.0, 5.0
_STALL_TARGET_S = 2.0
_N_KILL_TOKENS = 96
_PAUSE_S = 2.0


async def hedging(
    backbones: tuple[Backbone, Backbone], asked: Sequence[Asked], n_rounds: int
) -> list[Figure]:
    """The waits of layers with hedging and without; the first round settles.

    All of `asked` at once, so that a layer asks all workers; and all workers as often,
    though the product would go round one that stalls.
    """
    runs: tuple[list[Run], list[Run]] = ([], [])
    for number in range(n_rounds + 1):
        found = [await together(backbone.api.url, asked) for backbone in backbones]
        (ours, _), (bare, _) = found
        if [run.tokens for run in ours] != [run.tokens for run in bare]:
            raise RuntimeError("the tokens depend on hedging")
        if number:
            runs[0].append(joined(ours))
            runs[1].append(joined(bare))
    with_it, without = (_waits_ms(own) for own in runs)
    extra = [100 * run.hedges / max(1, run.calls) for run in runs[0]]
    name = "one of four workers stalls 200 ms on 2 %"
    cut = float(np.percentile(without, 99) / np.percentile(with_it, 99))
    return [
        figure(
            f"{name}, layer's wait, p99",
            "ms",
            [float(np.percentile(with_it, 99))],
            baseline=[float(np.percentile(without, 99))],
        ),
        figure(
            f"{name}, layer's wait, p50",
            "ms",
            [float(np.percentile(with_it, 50))],
            baseline=[float(np.percentile(without, 50))],
        ),
        figure(f"{name}, p99 cut by hedging", "x", [cut], at_least=_HEDGE_TARGET),
        figure(f"{name}, calls sent twice", "%", extra, at_most=_EXTRA_TARGET),
    ]


def _waits_ms(runs: Sequence[Run]) -> list[float]:
    return [
        1000 * layer.wait_s
        for run in runs
        for one in run.passes
        for layer in one.layers
        if layer.trips
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Killing:
    """Kills workers in the midst of answers, and starts them again."""

    network: WanNetwork
    backbone: Backbone

    async def run(self, n_kills: int) -> list[Figure]:
        """Return the longest gap of each answer; the text must stay the same."""
        names = sorted(self.network.workers)
        longest: list[float] = []
        for number in range(n_kills):
            asked = Asked(
                prompt="It was a dark night, and the old man",
                n_tokens=_N_KILL_TOKENS,
                temperature=0.8,
                seed=number % 3,
            )
            name = names[number % len(names)]
            _, expected = await stream_gaps(self.backbone.api.url, asked)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._kill_later, name, 0.1 + 0.05 * (number % 7))
                gaps, tokens = await stream_gaps(self.backbone.api.url, asked)
            if tokens != expected:
                raise RuntimeError("the tokens depend on a killed worker")
            longest.append(max(gaps))
            await self._again(name)
        p99 = float(np.percentile(longest, 99))
        return [
            figure(
                f"longest gap of {n_kills} answers, a worker killed in each",
                "s",
                longest,
            ),
            figure("... p99 of them", "s", [p99], at_most=_STALL_TARGET_S),
        ]

    async def _kill_later(self, name: str, after_s: float) -> None:
        await trio.sleep(after_s)
        child = self.network.workers[name]
        child.process.kill()
        await child.process.wait()

    async def _again(self, name: str) -> None:
        """Start it again from its folder, and give it the time to be asked again."""
        await self.network.start_worker(name)
        await trio.sleep(_PAUSE_S)
