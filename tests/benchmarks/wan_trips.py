"""A over the last half of 2,048 tokens, as design 08 counts it.

The disk tier is off, and beyond the hotter half of each layer a backbone has room for
less than a tenth of the experts. All arms of a workload are asked at once, each its own
backbone: waits and tokens are counted, so that what else the machine does changes them
little. Where a wait is long beside everything else, rates are compared too. An arm that
drafts nothing has nothing to learn in the first half, and is asked for the last alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import trio

from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.wan_arms import DRAFTABLE, NOVEL, Arm, Workload, draftable, novel
from tests.benchmarks.wan_network import WanNetwork
from tests.benchmarks.wan_requests import Run, joined, run_request

__all__ = ["N_REQUESTS", "N_TOKENS", "Counted", "count_trips", "trip_figures"]

N_REQUESTS, N_TOKENS = 8, 256
_OFF = "off"
_MOST = {
    (DRAFTABLE, "off"): 1.2,
    (NOVEL, "off"): 2.3,
    (DRAFTABLE, "auto"): 0.5,
    (NOVEL, "auto"): 0.7,
}
_OVER_NAIVE = {
    (DRAFTABLE, "off"): 4.5,
    (NOVEL, "off"): 2.3,
    (DRAFTABLE, "auto"): 9.0,
    (NOVEL, "auto"): 6.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The last half of one arm's requests."""

    arm: Arm
    workload: str
    run: Run


async def count_trips(
    network: WanNetwork,
    arms: Sequence[Arm],
    *,
    n_requests: int = N_REQUESTS,
    n_tokens: int = N_TOKENS,
) -> list[Counted]:
    """Ask all arms at once for one workload, then for the other."""
    counted: list[Counted] = []

    async def one(arm: Arm, workload: Workload) -> None:
        counted.append(await _count(network, arm, workload))

    for workload in (draftable(n_requests, n_tokens), novel(n_requests, n_tokens)):
        async with trio.open_nursery() as nursery:
            for arm in arms:
                nursery.start_soon(one, arm, workload)
        said = {each.run.tokens for each in counted if each.workload == workload.name}
        if len(said) > 1:
            raise RuntimeError(f"{workload.name}: the arms gave other tokens")
    return sorted(counted, key=lambda each: (each.workload, each.arm.name))


async def _count(network: WanNetwork, arm: Arm, workload: Workload) -> Counted:
    backbone = await network.start_backbone(f"{arm.name} {workload.name}", arm.setting)
    half = len(workload.requests) // 2
    learns = arm.setting.speculate != _OFF
    for asked in workload.requests[:half] if learns else ():
        await run_request(backbone.api.url, asked)
    runs = [await run_request(backbone.api.url, a) for a in workload.requests[half:]]
    await network.check_at_hand(backbone)
    return Counted(arm=arm, workload=workload.name, run=joined(runs))


def trip_figures(
    distance: str, counted: Sequence[Counted], *, compares_rates: bool
) -> list[Figure]:
    """Return A beside its target, and what it is made of.

    With `compares_rates` those of arms with the same experts at hand, beside the arm
    that drafts nothing.
    """
    found = []
    naive = {e.workload: e.run.rate for e in counted if e.arm.setting.speculate == _OFF}
    for each in counted:
        run = each.run
        name = f"{each.workload}, {distance}: {each.arm.name}"
        speculates = each.arm.setting.speculate != _OFF
        most = _MOST[each.workload, each.arm.setting.prefetch] if speculates else None
        found += [
            figure(f"{name}, A of the last half", "trips/token", [run.a], at_most=most),
            figure(f"{name}, g", "tokens/pass", [run.g]),
            figure(f"{name}, waits a pass", "trips", [run.trips / run.n_passes]),
            figure(f"{name}, acceptance", "%", [run.acceptance]),
            figure(f"{name}, crossing", "ms", [run.crossing_ms]),
            figure(
                f"{name}, weights fetched",
                "bytes/token",
                [run.fetched_bytes / run.n_decoded],
            ),
            figure(f"{name}, last half", "tokens/s", [run.rate]),
        ]
        if compares_rates and speculates and each.arm.setting.by_hand:
            found.append(
                figure(
                    f"{name}, last half over naive",
                    "x",
                    [run.rate / naive[each.workload]],
                    at_least=_OVER_NAIVE[each.workload, each.arm.setting.prefetch],
                )
            )
    return found
