"""What is fetched while nobody waits: measurements, and experts to be kept."""

import numpy as np

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.path_times import Path
from p2pmoe.backbone.prefetch.fetch_work import Lack
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from tests.support.prefetch_rig import SIZES, PrefetchRig

SIZE = next(iter(SIZES.values()))
ALL = {1: (0, 1, 2, 3), 2: (0, 1, 2, 3)}


def test_links_are_measured_before_anybody_waits_for_them() -> None:
    rig = PrefetchRig(n_workers=2, bytes_s=1e6)
    step = rig.fetch(ALL)
    (work,) = rig.works
    assert {wanted.peer for wanted in work.wanted} == {h.peer for h in rig.holder}
    assert step.record.n_trips == 0, "nobody waited"
    before = rig.prefetch.figures.n_bytes
    rig.fetch(ALL)
    assert rig.prefetch.figures.n_bytes == before + len(work.wanted) * SIZE
    for holder in rig.holder:
        assert rig.prefetch._rates.source(holder.peer, 0.1, rig.now) is not None


def test_a_remote_expert_that_repeats_is_kept() -> None:
    rig = PrefetchRig(hot_bytes=SIZE, pays=True)
    for _ in range(5):
        rig.use.add(1, np.array([[2]], np.int64))
    step = StepTrace.of(RequestTrace())
    rig.prefetch.needed(step, 1, {2})
    (work,) = rig.works
    assert [wanted.expert for wanted in work.wanted] == [ExpertId(1, 2)]
    assert rig.hot.resident() == ()
    rig.prefetch.needed(step, 1, {2})
    assert rig.hot.resident() == (ExpertId(1, 2),)
    assert rig.prefetch.figures.n_kept == 1
    assert rig.prefetch._parts.cost.times.mean_s(Path.FETCH) is not None


def test_what_never_comes_is_given_up_and_does_not_stop_the_next() -> None:
    rig = PrefetchRig()
    rig.answers = lambda wanted: None
    rig.fetch(ALL)
    rig.now += 9.0
    rig.fetch(ALL)
    assert (len(rig.works), rig.stopped) == (1, [])
    rig.now += 2.0
    rig.fetch(ALL)
    assert rig.stopped == rig.works[:1]
    assert rig.prefetch.figures.lacks[Lack.LATE] == len(rig.works[0].wanted)
    rig.now += 100.0
    rig.answers = rig.right
    rig.fetch(ALL)
    rig.fetch(ALL)
    assert rig.prefetch.figures.n_bytes > 0


def test_links_are_measured_by_what_plain_passes_need_too() -> None:
    rig = PrefetchRig(n_workers=2)
    step = StepTrace.of(RequestTrace())
    rig.prefetch.needed(step, 1, {0, 1})
    (work,) = rig.works
    assert {wanted.peer for wanted in work.wanted} == {h.peer for h in rig.holder}
    rig.prefetch.needed(step, 1, {0, 1})
    assert len(rig.works) == 1, "they are known now"


def kept_from(rig: PrefetchRig, expert: int) -> list[ExpertId]:
    """Return what is asked for to be kept, after a look that an expert is needed."""
    for _ in range(5):
        rig.use.add(1, np.array([[expert]], np.int64))
    before = len(rig.works)
    rig.now += 1000.0
    for _ in range(2):
        rig.prefetch.needed(StepTrace.of(RequestTrace()), 1, {expert})
    return [one.expert for work in rig.works[before:] for one in work.wanted]


def test_who_sent_other_bytes_is_not_asked_for_what_is_to_be_kept_either() -> None:
    rig = PrefetchRig(hot_bytes=SIZE, pays=True)
    rig.answers = rig.wrong
    assert kept_from(rig, 2) == [ExpertId(1, 2)]
    assert kept_from(rig, 2) == []
    assert rig.prefetch.figures.lacks[Lack.WRONG] == 1
    assert rig.hot.resident() == ()
