"""Speculation beside none on five kinds of text: it must never cost more than 5 %.

`workloads/KIND.txt` holds prompts, separated by lines of three dashes: text that is to
be copied, edited, continued as code, as prose, as a dialogue. Near, where drafting can
save nothing but its own time, and at 20 ms.
"""

from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.wan_arms import Arm, Workload
from tests.benchmarks.wan_network import WanNetwork
from tests.benchmarks.wan_requests import Asked
from tests.benchmarks.wan_speeds import Distance, Speeds, ask_in_turn
from tests.support.injector.conditions import NEAR, distance

__all__ = ["KINDS", "measure", "prompts_of"]

KINDS = ("copy", "edit", "code", "prose", "dialogue")
_FOLDER = Path(__file__).resolve().parent / "workloads"
_AT_LEAST = 0.95
_N_ROUNDS = 5
_N_PROMPTS = 2


def prompts_of(kind: str) -> list[str]:
    """Return the prompts of a kind."""
    text = (_FOLDER / f"{kind}.txt").read_text(encoding="utf-8")
    return [prompt.strip() for prompt in text.split("\n---\n") if prompt.strip()]


def _workload(kind: str, n_tokens: int) -> Workload:
    asked = [
        Asked(prompt=prompt, n_tokens=n_tokens)
        for prompt in prompts_of(kind)[:_N_PROMPTS]
    ]
    return Workload(name=kind, requests=tuple(asked))


async def measure(network: WanNetwork, arms: Sequence[Arm]) -> list[Figure]:
    """Ask both arms in turn; the second of `arms` speculates."""
    plain, ours = arms
    distances = [
        Distance(
            name=name,
            link=link,
            workloads=tuple(_workload(kind, n_tokens) for kind in KINDS),
        )
        for name, link, n_tokens in (
            ("0 ms", NEAR, 64),
            ("20 ms", distance(0.01), 32),
        )
    ]
    backbones = {
        arm: await network.start_backbone(arm.name, arm.setting) for arm in arms
    }
    speeds = Speeds()
    await ask_in_turn(network, backbones, distances, speeds, _N_ROUNDS)
    found = []
    for each in distances:
        for kind in KINDS:
            with_it = speeds.of(each.name, kind, ours.name)
            without = speeds.of(each.name, kind, plain.name)
            ratios = [a.rate / b.rate for a, b in zip(with_it, without, strict=True)]
            name = f"{kind}, {each.name}: {ours.name} over {plain.name}"
            found += [
                figure(name, "x", ratios, at_least=_AT_LEAST),
                figure(f"{name}, g", "tokens/pass", [run.g for run in with_it]),
            ]
    return found
