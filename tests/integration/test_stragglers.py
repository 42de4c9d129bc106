"""Stalls cost a layer little: hedges, failovers, slow workers; on a clock of our own.

Counted, not timed: workers answer on a clock that only jumps, so that the figures are
the same on any machine.
"""

from random import Random

import pytest

from mobile_worker.messages import Dispatch
from p2pmoe.backbone.fleet import Status
from tests.support.backbone import DispatchRig, peer_id
from tests.support.simulated_workers import Delay, SimulatedWorkers

N_EXPERTS = 8


def four_workers(*, hedging: bool = True) -> DispatchRig:
    """Return a rig of four workers; each expert has two holders, all pairs alike."""
    holders = {
        n: {2 * n - 2, 2 * n - 1, (2 * n) % 8, (2 * n + 1) % 8} for n in range(1, 5)
    }
    return DispatchRig(holders, local_allowed=False, hedging=hedging)


def stalling(rtt_s: float, seed: int, share: float = 0.02) -> Delay:
    """Return delays: a round trip and a little, and worker 1 stalls at times."""
    random = Random(seed)

    def delay(n: int, dispatch: Dispatch) -> float:
        stall = 0.2 if n == 1 and random.random() < share else 0.0
        return rtt_s * (1.0 + 0.1 * random.random()) + stall

    return delay


def percentile(waits: list[float], q: float) -> float:
    return sorted(waits)[int(q * len(waits))]


def run(rtt_s: float, *, hedging: bool, n_layers: int = 1000) -> SimulatedWorkers:
    """Run layers that ask all four workers, whatever a plan would make of them."""
    rig = four_workers(hedging=hedging)
    workers = SimulatedWorkers(rig, stalling(rtt_s, 1))
    calls = {n: {2 * n - 2: (0,), 2 * n - 1: (0,)} for n in range(1, 5)}
    for _ in range(n_layers):
        workers.run(rig.work(calls, n_rows=1))
    workers.settle()
    assert rig.accounts.add_up()
    return workers


@pytest.mark.parametrize("rtt_s", [0.0034, 0.020])
def test_hedging_cuts_the_p99_of_a_layer_five_times_for_five_percent(
    rtt_s: float,
) -> None:
    plain, hedged = run(rtt_s, hedging=False), run(rtt_s, hedging=True)
    cut = percentile(plain.waits, 0.99) / percentile(hedged.waits, 0.99)
    hedges = sum(hedged.rig.counters.hedges.values())
    share = hedges / (hedged.n_dispatches - hedges)
    assert cut >= 5
    assert share <= 0.05


def test_without_stalls_hardly_anything_is_hedged() -> None:
    workers = SimulatedWorkers(four_workers(), stalling(0.020, 1, share=0.0))
    random = Random(3)
    for _ in range(500):
        workers.run_layer(random.sample(range(N_EXPERTS), 6))
    assert sum(workers.rig.counters.hedges.values()) <= 0.001 * workers.n_dispatches


def test_b24_a_token_is_one_trip_a_layer_and_one_message_a_worker() -> None:
    """24 layers, 3 workers, 50 ms one way: token <= 24 (100 ms + compute) + 10 %."""
    compute_s, n_layers = 0.002, 24
    rig = DispatchRig({n: {2 * n - 2, 2 * n - 1} for n in (1, 2, 3)})
    workers = SimulatedWorkers(rig, lambda n, dispatch: 0.100 + compute_s)
    for _ in range(3):  # tokens: nothing known, little known, known
        start, before = rig.now, workers.n_dispatches
        for _ in range(n_layers):
            workers.run_layer(range(6))
        assert workers.n_dispatches - before == 3 * n_layers
        assert rig.now - start <= n_layers * (0.100 + compute_s) * 1.1
    assert len(rig.accounts.accepted) == 3 * 3 * n_layers
    assert rig.accounts.add_up()


@pytest.mark.parametrize("rtt_s", [0.0005, 0.0034, 0.020, 0.100])
def test_b11_a_worker_that_falls_silent_stalls_a_layer_less_than_two_seconds(
    rtt_s: float,
) -> None:
    """Twenty times of twenty, without any sign from its link, in mid-layer."""
    for seed in range(20):
        rig = four_workers()
        random = Random(seed)
        workers = SimulatedWorkers(rig, stalling(rtt_s, seed, share=0.0))
        for _ in range(random.randrange(0, 60)):
            workers.run_layer(random.sample(range(N_EXPERTS), 6))
        workers.silent.add(random.choice([1, 2, 3, 4]))
        for _ in range(10):
            experts = random.sample(range(N_EXPERTS), 6)
            (done,) = workers.run_layer(experts)
            assert sorted(done.values) == sorted(experts)
        assert max(workers.waits) < 2.0
        workers.settle()
        assert rig.accounts.add_up()


def test_a_worker_that_gets_slow_is_left_out_probed_and_taken_back() -> None:
    rig = four_workers()
    factor = {1: 1.0}
    workers = SimulatedWorkers(rig, lambda n, dispatch: 0.020 * factor.get(n, 1.0))
    random = Random(4)

    def layers(n: int) -> list[float]:
        del workers.waits[:]
        for _ in range(n):
            workers.run_layer(random.sample(range(N_EXPERTS), 6))
        return sorted(workers.waits)

    layers(100)
    factor[1] = 10.0
    layers(100)
    assert set(rig.fleet.slow) == {peer_id(1)}
    waits = layers(300)
    assert waits[int(0.99 * len(waits))] < 0.025
    assert rig.counters.hedges["probe"] >= 2
    factor[1] = 1.0
    layers(600)
    assert not rig.fleet.slow
    before = len(rig.dispatches(1))
    layers(100)
    assert len(rig.dispatches(1)) - before > 30
    workers.settle()
    assert rig.accounts.add_up()


def test_silence_shows_by_hedges_before_any_deadline() -> None:
    """A worker with replicas that falls silent costs milliseconds, not its deadline."""
    rig = four_workers()
    workers = SimulatedWorkers(rig, stalling(0.0034, 1, share=0.0))
    random = Random(5)
    for _ in range(100):
        workers.run_layer(random.sample(range(N_EXPERTS), 6))
    workers.silent.add(2)
    for _ in range(100):
        workers.run_layer(random.sample(range(N_EXPERTS), 6))
    assert max(workers.waits) < 0.010
    assert rig.fleet.workers[peer_id(2)].status is not Status.LIVE
    assert rig.counters.hedges["won"] <= 8
