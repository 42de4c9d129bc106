"""What a round of canaries costs the market, and what a cheat is paid until caught.

A round over 20,000 live leases of a model with 6,144 experts, four a worker: making it,
taking all answers in, and judging them. Seconds in which the market does nothing else.
Then, by the rates of a backbone's own checks, wrong answers paid before the first catch
(300 runs each; the design's bound for B34 is 20 on the mean).
"""

import time
from random import Random

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import CanaryAnswer
from p2pmoe.backbone.spot_checks import SpotChecks
from p2pmoe.market.canaries import Canaries, CanarySettings, Listed
from p2pmoe.market.canary_plan import HolderView
from p2pmoe.market.judging import Voice, judge
from relay.keys import PeerId
from tests.benchmarks.figures import Figure, figure

__all__ = ["run"]

_HOLDERS, _EXPERTS, _SLOTS = 20_000, 6_144, 4
_ROUNDS = 3
_RUNS = 300
_MODEL = bytes(32)


def run() -> list[Figure]:
    """Measure both."""
    rounds = [_round(Random(seed)) for seed in range(_ROUNDS)]
    figures = [
        figure(f"canaries over 20,000 leases: {what}", "s", values, at_most=1.0)
        for what, values in zip(
            ("made", "answers taken", "judged"), zip(*rounds, strict=True), strict=True
        )
    ]
    for every in (10, 50):
        paid = [_paid(every, Random(seed)) for seed in range(_RUNS)]
        mean = sum(paid) / len(paid)
        name = f"one wrong in {every}: wrong answers paid, mean"
        figures.append(figure(name, "servings", [mean], at_most=25.0))
    return figures


def _round(random: Random) -> tuple[float, float, float]:
    experts = [ExpertId(n >> 8, n & 0xFF) for n in range(_EXPERTS)]
    holders = [
        HolderView(
            peer=PeerId(n.to_bytes(32, "big")),
            domain=f"net {n % 7000}",
            is_known=True,
            experts=set(random.sample(experts, _SLOTS)),
        )
        for n in range(_HOLDERS)
    ]
    listed = Listed(holders=holders, backbones={})
    canaries = Canaries(CanarySettings(), random, lambda _: listed)
    canaries.begin(_MODEL, experts, 0.0)
    for holder in holders[:512]:
        canaries.held(_MODEL, holder.peer, list(holder.experts), 59.0)
    started = time.perf_counter()
    sends = canaries.tick(60.0)
    made = time.perf_counter()
    for send in sends:
        asked = send.message
        hashes = b"h" * 16 * len(asked.experts)
        canaries.answered(
            send.peer,
            CanaryAnswer(
                number=asked.number, experts=asked.experts, hashes=hashes, reason=""
            ),
        )
    taken = time.perf_counter()
    (closed,) = canaries.take_closed(61.0)
    for expert in closed.experts():
        voices = [
            Voice(peer=peer, domain=peer.hex(), said=word, is_known=True)
            for peer, word in closed.said_of(expert).items()
        ]
        judge(voices, closed.backbones_of(expert), lambda _witness, _accused: True)
    judged = time.perf_counter()
    return made - started, taken - made, judged - taken


def _paid(every: int, random: Random) -> int:
    """Return the wrong servings that are paid before one is caught."""
    checks = SpotChecks(first_passes=8)
    passes = paid = n = 0
    while True:
        n += 1
        is_wrong = n % every == 0
        if random.random() < checks.share(passes):
            if is_wrong:
                return paid
            passes += 1
        paid += is_wrong
