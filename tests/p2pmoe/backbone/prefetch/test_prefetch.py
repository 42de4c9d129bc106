"""The decode thread's side: one wait, checked weights, and nothing that can fail."""

import threading

import numpy as np
import pytest

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.prefetch import prefetch as prefetch_module
from p2pmoe.backbone.prefetch.buffer import Ahead
from p2pmoe.backbone.prefetch.fetch_work import Lack
from p2pmoe.backbone.prefetch.prefetch import merge_lists
from p2pmoe.backbone.trace import StepTrace
from tests.support.prefetch_rig import SIZES, PrefetchRig

SIZE = next(iter(SIZES.values()))
ALL = {1: (0, 1, 2, 3), 2: (3, 2, 1, 0)}


@pytest.fixture(autouse=True)
def _looks_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch_module, "_LOOK_S", 0.001)


def measured(**options: object) -> PrefetchRig:
    rig = PrefetchRig(**options)
    rig.measured()
    return rig


def ahead_of(step: StepTrace) -> Ahead:
    assert step.ahead is not None
    return step.ahead


def test_what_pays_is_fetched_in_one_wait_and_checked() -> None:
    rig = measured()
    step = rig.fetch(ALL)
    (work,) = rig.works
    assert len(work.wanted) == 8
    ahead = ahead_of(step)
    assert {n: set(ahead.layer(n)) for n in (1, 2)} == {n: {0, 1, 2, 3} for n in (1, 2)}
    assert ahead.n_bytes == 8 * SIZE
    record, (trace,) = step.record, step.traces
    assert (record.n_trips, record.n_fetched) == (1, 8)
    assert record.fetched_bytes == trace.fetched_bytes == 8 * SIZE
    assert trace.decode_trips + trace.prefill_trips == 1
    assert record.prefetch_s == pytest.approx(0.1 + 8 * SIZE / 1e8)
    figures = rig.prefetch.figures
    assert (figures.n_fetches, figures.n_experts) == (1, 8)
    assert "p2pmoe_prefetches_total 1" in rig.prefetch.samples()


def test_what_does_not_pay_costs_no_wait() -> None:
    rig = measured(rtt_s=0.001, bytes_s=1e6)
    step = rig.fetch(ALL)
    assert step.record.n_trips == 0
    assert ahead_of(step).n_bytes == 0
    assert rig.fetch({}, {}).ahead is None


def test_other_bytes_are_not_taken_and_their_sender_is_asked_no_more() -> None:
    rig = measured(n_workers=2)
    rig.answers = lambda w: (
        rig.wrong(w) if w.peer == rig.holder[0].peer else rig.right(w)
    )
    ahead = ahead_of(rig.fetch(ALL))
    assert set(ahead.layer(1)) == {1, 3}
    assert rig.prefetch.figures.lacks[Lack.WRONG] == 4
    rig.works.clear()
    rig.now += 1000.0
    rig.answers = rig.right
    rig.fetch({1: (1, 3), 2: (0, 1)})
    asked = {wanted.peer for work in rig.works for wanted in work.wanted}
    assert asked == {rig.holder[1].peer}


def test_what_never_comes_costs_one_bounded_wait() -> None:
    rig = measured()
    rig.answers = lambda w: rig.right(w) if w.expert.layer == 1 else None
    rig.look_s = 0.05
    start = rig.now
    step = rig.fetch(ALL)
    assert rig.now - start < 1.6
    assert rig.stopped == rig.works
    assert set(ahead_of(step).layer(1)) == {0, 1, 2, 3}
    assert ahead_of(step).layer(2) == {}
    assert step.record.n_trips == 1
    assert rig.prefetch.figures.lacks[Lack.LATE] == 4


def test_what_would_not_be_there_in_time_is_not_asked_for() -> None:
    rig = measured()
    assert rig.fetch(ALL, deadline=rig.now + 0.05).record.n_trips == 0
    assert rig.fetch(ALL, deadline=rig.now + 0.2).record.n_fetched == 8


def test_a_deadline_and_a_cancelled_step_end_the_wait() -> None:
    rig = measured()
    rig.answers = lambda w: None
    rig.look_s = 0.01
    start = rig.now
    rig.fetch(ALL, deadline=rig.now + 0.13)
    assert rig.now - start < 0.2
    assert rig.stopped == rig.works
    rig = measured()
    rig.answers = lambda w: None
    step = StepTrace.of(rig.fetch({}).traces[0])
    stopping = threading.Timer(0.01, step.stop)
    stopping.start()
    rig.prefetch.fetch([ALL], step, 1e9)  # its clock stands still
    stopping.join()
    assert rig.stopped == rig.works
    assert rig.prefetch.fetch([ALL], step, 1e9) is None
    assert len(rig.works) == 1, "nobody wants it any more"


def test_nobody_answers_and_a_refusal_are_misses() -> None:
    rig = measured()
    rig.answers = rig.no
    step = rig.fetch(ALL)
    assert ahead_of(step).n_bytes == 0
    assert rig.prefetch.figures.lacks[Lack.BUSY] == 8
    step = rig.fetch(ALL)
    assert step.record.n_trips == 0, "it is left alone for a second"


def test_the_buffer_bounds_what_is_asked_for() -> None:
    rig = measured(buffer_bytes=8 * SIZE - 1)
    step = rig.fetch(ALL)  # one layer alone costs the trip that it saves
    assert (step.record.n_trips, ahead_of(step).n_bytes) == (0, 0)
    assert measured(buffer_bytes=8 * SIZE).fetch(ALL).record.n_fetched == 8


def test_passes_under_way_share_the_buffer() -> None:
    rig = measured(buffer_bytes=12 * SIZE)
    first = rig.fetch(ALL)
    assert first.record.n_fetched == 8
    assert rig.fetch(ALL).record.n_fetched == 0, "no room for as much again"
    first.end()
    assert ahead_of(first).layer(1) == {}
    second = rig.fetch(ALL)
    assert second.record.n_fetched == 8
    del second  # dropped without an end
    assert rig.fetch(ALL).record.n_fetched == 8


def test_hits_and_misses_are_counted_and_what_repeats_is_kept() -> None:
    rig = measured(hot_bytes=SIZE)
    while rig.hot.resident():  # from probes
        rig.hot._drop(rig.hot.resident()[0])
    rig.use.add(1, np.array([[2], [2], [3]], np.int64))
    step = rig.fetch({1: (1, 2)})
    if not ahead_of(step).n_bytes:
        ahead_of(step).max_bytes = SIZE
        assert ahead_of(step).put(ExpertId(1, 2), object(), SIZE)
    rig.prefetch.needed(step, 1, {2, 3})
    figures = rig.prefetch.figures
    assert (figures.n_hits, figures.n_misses) == (1, 1)
    assert rig.hot.resident() == (ExpertId(1, 2),)


def test_lists_of_several_drafts_become_one_by_rank_and_use_fills_it() -> None:
    rig = PrefetchRig(hot_bytes=SIZE)
    rig.hot.adopt(ExpertId(1, 3), object())
    foreseen = [{1: (0, 3), 2: (1,)}, {}, {1: (2,), 0: (1,), 7: (), 2: (99,)}]
    for _ in range(3):
        rig.use.add(2, np.array([[3]], np.int64))
    lists = merge_lists(foreseen, rig.hot, rig.use.next_use)
    assert lists == {1: (0, 2, 1), 2: (1, 3)}


def test_lanes_may_fetch_at_the_same_time() -> None:
    rig = measured(n_workers=2)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(20):
                step = rig.fetch(ALL)
                for layer in (1, 2):
                    rig.prefetch.needed(step, layer, {0, 1})
        except BaseException as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    figures = rig.prefetch.figures
    assert figures.n_hits + figures.n_misses == figures.n_fetches * 4
