"""Who may be asked: only live, placed and payable workers, and failures cost time."""

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.cost import CallSample
from p2pmoe.backbone.fleet import Fleet, Status
from p2pmoe.backbone.plan import Tier
from p2pmoe.backbone.servings import Means
from relay.keys import PeerId
from tests.support.backbone import peer_id

ONE, TWO = peer_id(1), peer_id(2)
EXPERTS = [ExpertId(1, 0), ExpertId(1, 3), ExpertId(2, 0)]


def live_fleet() -> Fleet:
    fleet = Fleet()
    fleet.place({ONE: (Tier.HUB, EXPERTS), TWO: (Tier.EDGE, EXPERTS[:1])})
    for peer in (ONE, TWO):
        fleet.greeting(peer, 0.0)
        assert fleet.greeted(peer)
        fleet.set_means(peer, Means.ROOM)
    return fleet


def test_a_placement_alone_makes_nobody_askable() -> None:
    fleet = Fleet()
    fleet.place({ONE: (Tier.HUB, EXPERTS)})
    assert fleet.to_greet(0.0) == [ONE]
    assert not fleet.holders(1)
    fleet.greeting(ONE, 0.0)
    assert fleet.to_greet(1.0) == []
    assert fleet.to_greet(6.0) == [ONE]  # its answer never came
    fleet.greeted(ONE)
    assert not fleet.holders(1)  # no grant yet
    fleet.set_means(ONE, Means.ROOM)
    assert set(fleet.holders(1)) == {0, 3}


def test_a_full_float_passes_and_leaves_the_coverage() -> None:
    fleet = live_fleet()
    assert fleet.set_means(ONE, Means.FULL)
    assert not fleet.set_means(ONE, Means.FULL)
    assert set(fleet.holders(1)) == {0}  # the other one's
    assert fleet.covered() == set(EXPERTS)
    assert fleet.n_covered({}) == len(EXPERTS)
    fleet.set_means(ONE, Means.NONE)
    assert fleet.covered() == set(EXPERTS[:1])


def test_holders_and_coverage_follow_changes() -> None:
    fleet = live_fleet()
    assert {h.peer for h in fleet.holders(1)[0]} == {ONE, TWO}
    assert fleet.covered() == set(EXPERTS)
    assert fleet.n_covered({1: [0, 9], 5: [1]}) == 5
    fleet.lost(ONE, 0.0)
    assert [h.peer for h in fleet.holders(1)[0]] == [TWO]
    assert fleet.holders(2) == {}
    fleet.place({ONE: (Tier.HUB, EXPERTS)})
    assert fleet.holders(1) == {}


def test_b28_failures_demote_for_longer_each_time_until_a_valid_answer() -> None:
    fleet = live_fleet()
    waits = []
    for _ in range(8):
        fleet.failed(ONE, 0.0)
        waits.append(fleet.workers[ONE].until)
        assert not fleet.greeted(ONE)  # an answer to an earlier greeting is no proof
        fleet.greeting(ONE, 0.0)
        fleet.greeted(ONE)
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    fleet.succeeded(ONE)
    fleet.failed(ONE, 0.0)
    assert fleet.workers[ONE].until == 1.0


def test_b28_all_that_was_under_way_when_a_worker_failed_counts_once() -> None:
    fleet = live_fleet()
    for now in (0.0, 0.1, 0.2):
        fleet.failed(ONE, now)
    assert fleet.workers[ONE].until == 1.0
    fleet.failed(ONE, 0.5, weight=2)  # but a wrong answer is one of its own
    assert fleet.workers[ONE].until == 4.5


def test_b28_thousands_of_failures_are_no_overflow() -> None:
    fleet = live_fleet()
    for _ in range(2000):  # an unreachable worker that stays placed; a hostile one
        fleet.failed(ONE, 0.0, weight=2)
    assert fleet.workers[ONE].until == 60.0
    assert fleet.to_greet(60.0) == [ONE]


def test_a_dropped_worker_never_comes_back() -> None:
    fleet = live_fleet()
    fleet.dropped(ONE)
    fleet.place({ONE: (Tier.HUB, EXPERTS)})
    fleet.greeting(ONE, 0.0)
    assert not fleet.greeted(ONE)
    fleet.failed(ONE, 0.0)
    fleet.lost(ONE, 0.0)
    fleet.draining(ONE, 0.0)
    assert fleet.workers[ONE].status is Status.DROPPED


def test_a_worker_placed_anew_is_greeted_without_delay() -> None:
    fleet = live_fleet()
    for _ in range(6):
        fleet.lost(ONE, 0.0)
    fleet.place({})
    fleet.place({ONE: (Tier.HUB, EXPERTS)})
    assert fleet.to_greet(0.0) == [ONE]


def test_draining_and_not_held() -> None:
    fleet = live_fleet()
    fleet.draining(TWO, 0.0)
    assert fleet.to_greet(59.0) == []
    fleet.not_held(ONE, 1, [3])
    assert set(fleet.holders(1)) == {0}


def test_the_tier_may_change_with_a_placement() -> None:
    fleet = live_fleet()
    fleet.place({ONE: (Tier.EDGE, EXPERTS)})
    assert fleet.holders(2)[0][0].tier is Tier.EDGE


def test_idle_estimates_fade() -> None:
    fleet = live_fleet()
    before = fleet.workers[TWO].cost.rtt_s
    fleet.relax(0.0)
    assert fleet.workers[TWO].cost.rtt_s < before


def measured(fleet: Fleet, peer: PeerId, seconds: float, n: int = 16) -> None:
    for _ in range(n):
        fleet.workers[peer].cost.observe(
            CallSample(elapsed_s=seconds, compute_s=0.0, n_rows=1, n_bytes=900)
        )


def one_is_slow() -> Fleet:
    """Return a fleet in which worker 1 holds all, and the quick one an expert."""
    fleet = Fleet()
    fleet.place({ONE: (Tier.EDGE, EXPERTS), TWO: (Tier.EDGE, EXPERTS[:1])})
    for peer in (ONE, TWO):
        fleet.greeting(peer, 0.0)
        fleet.greeted(peer)
        fleet.set_means(peer, Means.ROOM)
    measured(fleet, ONE, 0.300)
    measured(fleet, TWO, 0.020)
    fleet.relax(10.0)
    return fleet


def test_a_slow_worker_is_asked_only_for_what_nobody_else_holds() -> None:
    fleet = one_is_slow()
    assert set(fleet.slow) == {ONE}
    assert [h.peer for h in fleet.holders(1)[0]] == [TWO]
    assert [h.peer for h in fleet.holders(1)[3]] == [ONE]
    assert fleet.covered() == set(EXPERTS)
    rtt_s = fleet.workers[ONE].cost.rtt_s
    fleet.relax(10.25)
    assert fleet.workers[ONE].cost.rtt_s == rtt_s  # it is probed, not forgiven


def test_a_slow_worker_is_probed_and_comes_back_when_it_is_quick() -> None:
    fleet = one_is_slow()
    assert fleet.to_probe(1, 0, 10.5) is None
    now, n_probes = 11.0, 0
    while ONE in fleet.slow:
        found = fleet.to_probe(1, 0, now)
        assert found is not None
        assert found.peer == ONE
        fleet.probed(ONE, now)
        assert fleet.to_probe(1, 0, now) is None
        n_probes += 1
        measured(fleet, ONE, 0.020, n=1)
        fleet.relax(now)
        now += 61.0
    assert n_probes == 1
    assert len(fleet.holders(1)[0]) == 2
