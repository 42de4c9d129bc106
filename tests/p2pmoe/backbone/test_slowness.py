"""Slow is what is many times slower than the middle of its tier."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.cost import CallSample, WorkerCost
from p2pmoe.backbone.plan import Tier
from p2pmoe.backbone.slowness import LONGEST_PROBE_S, ProbeTimes, slow_workers
from relay.keys import PeerId
from tests.support.backbone import peer_id


def cost(seconds: float, n: int = 16) -> WorkerCost:
    known = WorkerCost()
    for _ in range(n):
        known.observe(
            CallSample(elapsed_s=seconds, compute_s=0.0, n_rows=1, n_bytes=900)
        )
    return known


def edge(*seconds: float) -> list[tuple[PeerId, Tier, WorkerCost]]:
    return [(peer_id(n), Tier.EDGE, cost(s)) for n, s in enumerate(seconds, 1)]


def test_one_of_four_is_slow() -> None:
    assert slow_workers(edge(0.02, 0.02, 0.03, 0.2), ()) == {peer_id(4)}
    assert slow_workers(edge(0.02, 0.02, 0.03, 0.05), ()) == set()


def test_a_tier_is_compared_with_itself() -> None:
    hub = (peer_id(9), Tier.HUB, cost(0.001))
    assert slow_workers([*edge(0.05), hub], ()) == set()


def test_who_is_unknown_or_alone_is_not_slow() -> None:
    new = (peer_id(8), Tier.EDGE, cost(9.0, n=3))
    assert slow_workers([*edge(0.02, 0.02), new], ()) == set()
    assert slow_workers(edge(9.0), ()) == set()


def test_slow_ends_lower_than_it_begins() -> None:
    workers = edge(0.02, 0.02, 0.055)
    assert slow_workers(workers, ()) == set()
    assert slow_workers(workers, {peer_id(3)}) == {peer_id(3)}


@given(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=8))
def test_the_quickest_is_never_slow(seconds: list[float]) -> None:
    slow = slow_workers(edge(*seconds), ())
    assert len(slow) <= len(seconds) // 2
    assert peer_id(1 + seconds.index(min(seconds))) not in slow


def test_probes_come_ever_more_rarely() -> None:
    times, now, waits = ProbeTimes(), 100.0, []
    assert times.update([peer_id(1)], now)
    assert not times.update([peer_id(1)], now)
    assert not times.is_due(peer_id(2), 1e9)
    for _ in range(9):
        start = now
        while not times.is_due(peer_id(1), now):
            now += 0.5
        waits.append(now - start)
        times.probed(peer_id(1), now)
    assert waits[:3] == pytest.approx([1.0, 2.0, 4.0])
    assert waits[-1] == LONGEST_PROBE_S
    assert times.update([], now)
