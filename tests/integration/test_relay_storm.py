"""A thousand peers lose their relay and come back: on a clock of the test alone.

What decides is put together as it runs: the client's delays (`relay.backoff`), what a
draining relay tells each peer, and the gate before the port with its usual limits. The
target of the design: all back within 60 s, and no second with more than 100 joins.
"""

import heapq
import random
from collections import Counter

import pytest

from relay.backoff import Backoff
from relay.gate import AddressGate, GateLimits, Origin
from tests.support.joins import busiest_second

N = 1000
HANDSHAKE_S = 0.3  # the most that joining takes; nobody holds a place for longer


def storm(asked_s: list[float], down_s: float, seed: int) -> list[float]:
    """Return when each peer has joined again, in order; the relay is lost at 0.

    `asked_s`: how long each was asked to wait, 0 where nobody asked. The relay takes
    connections again after `down_s`.
    """
    rng = random.Random(seed)
    gate = AddressGate(GateLimits(), down_s)
    delays = [Backoff(random=rng.random) for _ in asked_s]
    tries = [
        (delay.next_delay_s(asked_s=asked) + rng.random() * 0.02, number)
        for number, (delay, asked) in enumerate(zip(delays, asked_s, strict=True))
    ]
    heapq.heapify(tries)
    joined = []
    while tries:
        now, number = heapq.heappop(tries)
        address = f"10.{number % 7}.{number // 256}.{number % 256}"
        if now >= down_s:
            entered = gate.enter(address, Origin.PEER, now)
            if entered:
                joined.append(now + rng.random() * HANDSHAKE_S)
                gate.leave(entered, proven=True, now=now)
                continue
        again = now + delays[number].next_delay_s()
        heapq.heappush(tries, (again, number))
    return sorted(joined)


def check(joined: list[float]) -> None:
    assert len(joined) == N
    assert joined[-1] <= 60.0
    assert busiest_second(joined) <= 100


@pytest.mark.parametrize("down_s", [0.0, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("seed", range(3))
def test_all_come_back_to_a_relay_that_was_killed(down_s: float, seed: int) -> None:
    check(storm([0.0] * N, down_s, seed))


@pytest.mark.parametrize("seed", range(3))
def test_all_come_back_when_a_draining_relay_said(seed: int) -> None:
    rng = random.Random(seed)
    spread_s = N / 50  # relay.server.drain: 50 joins a second
    joined = storm([rng.random() * spread_s for _ in range(N)], 3.0, seed)
    check(joined)
    # The spread is the relay's own: most come at their first try.
    assert joined[N // 2] < spread_s


def test_tries_are_few() -> None:
    """Nobody hammers: within a minute of a relay that is gone, a dozen tries each."""
    rng, tries = random.Random(1), Counter[int]()
    for number in range(N):
        delays, now = Backoff(random=rng.random), 0.0
        while (now := now + delays.next_delay_s()) < 60.0:
            tries[number] += 1
    assert max(tries.values()) <= 20
    assert tries.total() / N < 12
