"""A pass being recorded, with a clock of the test's own."""

import pytest

from p2pmoe.backbone.pass_record import PassRecord
from p2pmoe.backbone.plan import ExpertRows, LayerPlan, Tier, WorkerCalls
from p2pmoe.passes.values import LayerTrace, PassTrace
from relay.keys import PeerId

PEER = PeerId(bytes(32))


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 10.0

    def __call__(self) -> float:
        return self.now


def call(expert: int, *rows: int) -> ExpertRows:
    return ExpertRows(expert=expert, rows=rows)


def plan(layer: int, *away: ExpertRows, disk: int = 0) -> LayerPlan:
    return LayerPlan(
        layer=layer,
        disk=tuple(call(20 + n, 0) for n in range(disk)),
        remote=(WorkerCalls(peer=PEER, tier=Tier.EDGE, calls=away),) if away else (),
    )


def recorded(clock: Clock, *, keeps: bool = True) -> PassRecord:
    """Return a pass of two layers away: one hides 2 s of 5, the other none of 1."""
    record = PassRecord(lane=3, keeps_layers=keeps, monotonic=clock)
    record.planned("drafts pay", "self", 0.5)
    record.at_hand()
    clock.now += 1
    record.asked(plan(4, call(7, 0, 2), call(9, 2)))
    record.sent()
    record.sent()
    clock.now += 2
    record.drafted(1.5)
    record.hedged([call(9, 2)])
    record.failed_over(1)
    clock.now += 3
    record.answered()
    record.waited(3.0)
    record.asked(plan(5, call(1, 1), disk=2))
    clock.now += 1
    record.answered()
    record.waited(1.0)
    return record


def test_layers_say_why_they_waited_and_what_was_done_meanwhile() -> None:
    told = recorded(Clock()).told(7.0, 3, 1)
    first, second = told.layers
    assert first == LayerTrace(
        layer=4,
        start_s=1.0,
        missing=(7, 9),
        n_rows=2,
        trips=1,
        meanwhile_s=2.0,
        draft_s=1.5,
        wait_s=3.0,
        answered_s=6.0,
        n_messages=2,
        n_hedged=1,
        n_failovers=1,
    )
    assert first.wait_from_s == 3.0
    assert (second.layer, second.missing, second.n_disk) == (5, (1,), 2)
    assert (second.meanwhile_s, second.wait_s) == (0.0, 1.0)


def test_the_pass_has_the_sums() -> None:
    record = recorded(Clock())
    told = record.told(7.0, 3, 2)
    assert (told.start_s, told.seconds, told.lane) == (10.0, 7.0, 3)
    assert (told.n_rows, told.n_sequences, told.n_layers) == (3, 2, 3)
    assert (told.trips, told.wait_s) == (2, 4.0)
    assert (told.drafter, told.draft_s, told.why) == ("self", 0.5, "drafts pay")
    assert record.crossing_s == 6.0


def test_sums_are_kept_where_nobody_asked_for_layers() -> None:
    record = recorded(Clock(), keeps=False)
    record.prefetched(4, [call(7, 0)])
    told = record.told(7.0, 3, 2)
    assert told.layers == ()
    assert (told.trips, told.wait_s, record.crossing_s) == (2, 4.0, 6.0)


def test_a_wait_for_weights_is_a_trip_of_the_pass() -> None:
    record = PassRecord(keeps_layers=True, monotonic=Clock())
    record.fetched(0.25, 5, 1000)
    told = record.told(1.0, 1, 1)
    assert (told.trips, told.wait_s, told.prefetch_s) == (1, 0.25, 0.25)
    assert (told.n_fetched, told.fetched_bytes) == (5, 1000)
    assert record.crossing_s == 0.25


def test_prefetched_weights_are_told_of_a_layer_that_did_not_wait() -> None:
    record = PassRecord(keeps_layers=True, monotonic=Clock())
    record.prefetched(2, [call(7, 0), call(8, 0)])
    (layer,) = record.told(1.0, 1, 1).layers
    assert (layer.layer, layer.n_prefetched, layer.trips) == (2, 2, 0)


def test_a_layer_that_waits_twice_is_one_layer() -> None:
    clock = Clock()
    record = PassRecord(keeps_layers=True, monotonic=clock)
    record.asked(plan(4, call(7, 0)))
    clock.now += 2
    record.waited(1.0)
    record.asked(plan(4, call(8, 1)))
    clock.now += 1
    record.waited(1.0)
    told = record.told(3.0, 2, 1)
    assert told.n_layers == 1
    (layer,) = told.layers
    assert (layer.trips, layer.missing, layer.n_rows) == (2, (7, 8), 2)
    assert (layer.meanwhile_s, layer.wait_s) == (1.0, 2.0)


@pytest.mark.parametrize("keeps", [True, False])
def test_nothing_fails_before_the_first_layer(*, keeps: bool) -> None:
    record = PassRecord(keeps_layers=keeps, monotonic=Clock())
    record.sent()
    record.answered()
    record.hedged([call(1, 0)])
    record.failed_over(1)
    record.drafted(1.0)
    record.waited(0.5)
    told = record.told(1.0, 1, 1)
    assert isinstance(told, PassTrace)
    assert (told.trips, told.layers) == (1, ())
