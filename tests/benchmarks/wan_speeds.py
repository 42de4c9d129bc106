"""Decoding at a distance, all arms in turn; one hash of tokens for each profile."""

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.wan_arms import ALONE, DRAFTABLE, NOVEL, Arm, Workload
from tests.benchmarks.wan_network import Backbone, WanNetwork, start_alone
from tests.benchmarks.wan_requests import Run, joined, run_request
from tests.support.injector.conditions import Link

__all__ = [
    "Distance",
    "Speeds",
    "ask_in_turn",
    "check_hashes",
    "measure_speeds",
    "speed_figures",
]

_SPEED_UPS = {  # over naive at 100 ms, by workload and arm
    (DRAFTABLE, "auto"): 4.5,
    (NOVEL, "auto"): 2.3,
    (DRAFTABLE, "auto+prefetch"): 9.0,
    (NOVEL, "auto+prefetch"): 6.0,
}
_TARGETS_AT = "100 ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """A link by name, and what is asked over it, of arms of which profiles."""

    name: str
    link: Link
    workloads: tuple[Workload, ...]
    profiles: tuple[str, ...] = ("r16", "r8", "r32")


@dataclass(kw_only=True)
class Speeds:
    """Runs of each round by (distance, workload, arm)."""

    rounds: dict[tuple[str, str, str], list[Run]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def of(self, distance: str, workload: str, arm: str) -> list[Run]:
        """Return an arm's rounds; none if it was not there."""
        return self.rounds.get((distance, workload, arm), [])


async def measure_speeds(
    network: WanNetwork,
    arms: Sequence[Arm],
    distances: Sequence[Distance],
    n_rounds: int,
) -> Speeds:
    """Ask every arm in turn, round by round, at each distance.

    The first round at a distance settles what is estimated there, and does not count.

    Raises:
        RuntimeError: two arms of one profile gave different tokens.
    """
    backbones = {
        arm: await network.start_backbone(arm.name, arm.setting) for arm in arms
    }
    alone = await start_alone(network.stage, ALONE.name, network.halves, ALONE.setting)
    backbones[ALONE] = alone
    speeds = Speeds()
    await ask_in_turn(network, backbones, distances, speeds, n_rounds)
    await alone.api.aclose()
    return speeds


async def ask_in_turn(
    network: WanNetwork,
    backbones: Mapping[Arm, Backbone],
    distances: Sequence[Distance],
    speeds: Speeds,
    n_rounds: int,
) -> None:
    """Ask every backbone in turn, and keep what came of it in `speeds`.

    Raises:
        RuntimeError: two arms of one profile gave different tokens.
    """
    for distance in distances:
        network.change(distance.link)
        asked = {
            arm: backbone
            for arm, backbone in backbones.items()
            if arm.profile in distance.profiles
        }
        for number in range(n_rounds + 1):
            for workload in distance.workloads:
                found = await _round(asked, workload)
                _tell(distance, workload, number, found)
                check_hashes(found, f"{distance.name}, {workload.name}")
                for arm, run in found.items() if number else ():
                    speeds.rounds[distance.name, workload.name, arm.name].append(run)


def _tell(
    distance: Distance, workload: Workload, number: int, found: Mapping[Arm, Run]
) -> None:
    """Show a round as it ends: the whole takes long."""
    rates = ", ".join(f"{arm.name} {run.rate:.1f}" for arm, run in found.items())
    place = f"{distance.name}, {workload.name}, round {number}"
    print(f"        {place}: {rates} tokens/s", file=sys.stderr, flush=True)


async def _round(
    backbones: Mapping[Arm, Backbone], workload: Workload
) -> dict[Arm, Run]:
    found: dict[Arm, list[Run]] = defaultdict(list)
    for asked in workload.requests:
        for arm, backbone in backbones.items():
            found[arm].append(await run_request(backbone.api.url, asked))
    return {arm: joined(runs) for arm, runs in found.items()}


def check_hashes(found: Mapping[Arm, Run], where: str) -> None:
    """Refuse runs of one profile whose tokens differ."""
    first: dict[str, tuple[str, str]] = {}
    for arm, run in found.items():
        name, digest = first.setdefault(arm.profile, (arm.name, run.digest))
        if digest != run.digest:
            raise RuntimeError(f"{where}: {arm.name} and {name} gave different tokens")


def speed_figures(
    speeds: Speeds, distances: Sequence[Distance], arms: Sequence[Arm]
) -> list[Figure]:
    """Return rates beside naive dispatch, and what explains them beside each."""
    found = []
    for distance in distances:
        for workload in distance.workloads:
            place = f"{workload.name}, {distance.name}"
            naive = speeds.of(distance.name, workload.name, "naive")
            for arm in (*arms, ALONE):
                runs = speeds.of(distance.name, workload.name, arm.name)
                if runs:
                    target = None
                    if distance.name == _TARGETS_AT:
                        target = _SPEED_UPS.get((workload.name, arm.name))
                    found += _arm_figures(f"{place}: {arm.name}", runs, naive, target)
    return found


def _arm_figures(
    name: str, runs: Sequence[Run], naive: Sequence[Run], target: float | None
) -> list[Figure]:
    rates = [run.rate for run in runs]
    found = [
        figure(name, "tokens/s", rates, baseline=[run.rate for run in naive]),
    ]
    if target is not None:
        ratios = [run.rate / slow.rate for run, slow in zip(runs, naive, strict=True)]
        found.append(figure(f"{name}, over naive", "x", ratios, at_least=target))
    whole = joined(runs)
    if whole.trips:
        found += [
            figure(f"{name}, A", "trips/token", [run.a for run in runs]),
            figure(f"{name}, crossing", "ms", [run.crossing_ms for run in runs]),
        ]
    if whole.drafted:
        found += [
            figure(f"{name}, g", "tokens/pass", [run.g for run in runs]),
            figure(f"{name}, acceptance", "%", [run.acceptance for run in runs]),
        ]
    return found
