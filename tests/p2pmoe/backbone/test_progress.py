"""B11: whatever the order of events, an expert leaves `open` exactly once."""

from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.exchange import (
    ComputeHere,
    HeldByNobody,
    LayerDone,
    LayerFailed,
    Reason,
)
from p2pmoe.backbone.outputs import CallResult
from p2pmoe.backbone.plan import ExpertRows
from p2pmoe.backbone.progress import Progress
from p2pmoe.backbone.servings import ServingSlot
from p2pmoe.errors import Cancelled
from tests.support.backbone import DispatchRig, peer_id

EXPERTS = (0, 1, 2, 3)


def call(expert: int) -> ExpertRows:
    return ExpertRows(expert=expert, rows=(0,))


def slot(n: int, first: int = 0) -> ServingSlot:
    return ServingSlot(
        peer=peer_id(1), tab=bytes(8), first=first, n=n, n_rows=n, price_epoch=1
    )


def result(rig: DispatchRig, expert: int) -> CallResult:
    x = rig.work({}).rows.floats
    assert x is not None
    return CallResult(call=call(expert), values=x[:1], coded=b"")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["take", "hand back", "nobody", "strand", "unstrand", "finish"]
            ),
            st.sets(st.sampled_from(EXPERTS), min_size=1),
        ),
        max_size=12,
    ),
    st.booleans(),
)
def test_b11_one_end_and_every_expert_once(
    events: list[tuple[str, set[int]]], fails: bool
) -> None:
    rig = DispatchRig({})
    work = rig.work({1: dict.fromkeys(EXPERTS, (0,))}, n_rows=1)
    progress = Progress(work)
    for what, experts in events:
        if what == "take":
            progress.take([result(rig, e) for e in sorted(experts)], slot(len(experts)))
        elif what == "hand back":
            progress.hand_back([call(e) for e in sorted(experts)], Reason.LATE)
        elif what == "nobody":
            progress.held_by_nobody([call(e) for e in sorted(experts)])
        elif what == "strand":
            progress.strand([call(e) for e in sorted(experts)], 0.0)
        elif what == "unstrand":
            progress.unstrand()
        else:
            progress.finish_if_complete()
    if fails:
        progress.fail(Cancelled("cancelled"))
    else:
        progress.hand_back([call(e) for e in EXPERTS], Reason.LOST)
        progress.finish_if_complete()
    progress.fail(Cancelled("too late"))
    replies = rig.replies(work)
    ends = [r for r in replies if isinstance(r, LayerDone | LayerFailed)]
    assert len(ends) == 1
    assert replies[-1] is ends[0]
    if isinstance(ends[0], LayerDone):
        handed = [r for r in replies if isinstance(r, ComputeHere | HeldByNobody)]
        here = [c.expert for r in handed for c in r.calls]
        assert sorted([*here, *ends[0].values]) == list(EXPERTS)


def test_what_another_answer_brought_is_not_taken_twice() -> None:
    rig = DispatchRig({})
    progress = Progress(rig.work({1: {0: (0,), 1: (0,)}}, n_rows=1))
    first = result(rig, 0)
    assert progress.take([first], slot(1, first=7)) == [first]
    again, fresh = result(rig, 0), result(rig, 1)
    assert progress.take([again, fresh], slot(2, first=20)) == [fresh]
    assert progress.taken[0].serving == 7
    assert progress.taken[1].serving == 21
    assert not progress.take([result(rig, 3)], slot(1))
    assert not progress.open


def test_what_a_dispatch_is_out_for_is_not_sent_elsewhere() -> None:
    rig = DispatchRig({1: {0, 1}, 2: {0, 1}}, local_allowed=False)
    progress = Progress(rig.work({1: {0: (0,), 1: (0,)}}, n_rows=1))
    progress.sent(5, [call(0), call(1)])
    progress.sent(6, [call(0)])
    assert progress.uncovered([call(0), call(1)]) == []
    assert progress.uncovered([call(0), call(1)], but=5) == [call(1)]
    progress.closed(5)
    (message,) = progress.replan([call(0), call(1)], rig.fleet).remote
    assert message.calls == (call(1),)
    progress.take([result(rig, 0)], slot(1))
    assert not progress.wanted_of(6)
    assert progress.out() == [6]


def test_a_hedge_takes_all_of_a_call_or_nothing() -> None:
    rig = DispatchRig({1: {0, 1}, 2: {0}, 3: {1}, 4: {0}}, local_allowed=False)
    progress = Progress(rig.work({1: {0: (0,), 1: (0,)}}, n_rows=1))
    calls = [call(0), call(1)]
    plan = progress.plan_hedge(calls, rig.fleet, peer_id(1))
    assert plan is not None
    assert {m.peer for m in plan.remote} == {peer_id(2), peer_id(3)}
    assert progress.plan_hedge(calls, rig.fleet, peer_id(3)) is not None
    rig.fleet.dropped(peer_id(3))
    assert progress.plan_hedge(calls, rig.fleet, peer_id(1)) is None


def test_barred_workers_are_never_asked() -> None:
    rig = DispatchRig({1: {0}, 2: {0}}, local_allowed=False)
    work = rig.work({}, barred=frozenset({peer_id(1), peer_id(2)}))
    progress = Progress(rig.work({1: {0: (0,)}}, n_rows=1))
    assert progress.replan([call(0)], rig.fleet).remote
    barred = Progress(work)
    barred.open[0] = call(0)
    assert barred.replan([call(0)], rig.fleet).stranded == (call(0),)


def test_replanning_leaves_out_who_was_tried_until_it_is_stranded() -> None:
    rig = DispatchRig({1: {0}, 2: {0}}, local_allowed=False)
    progress = Progress(rig.work({1: {0: (0,)}}, n_rows=1))
    progress.tried([call(0)], peer_id(1))
    (message,) = progress.replan([call(0)], rig.fleet).remote
    assert message.peer == peer_id(2)
    progress.tried([call(0)], peer_id(2))
    plan = progress.replan([call(0)], rig.fleet)
    assert plan.stranded == (call(0),)
    progress.strand(plan.stranded, 0.0)
    assert progress.unstrand() == (call(0),)
    assert progress.replan([call(0)], rig.fleet).remote


def test_patience_counts_from_the_first_time_that_nobody_can() -> None:
    rig = DispatchRig({})
    work = rig.work({1: {0: (0,), 1: (0, 2)}}, n_rows=3, patience_s=2.0)
    progress = Progress(work)
    assert progress.gives_up_at == work.deadline
    progress.strand([call(0)], 10.0)
    progress.unstrand()
    progress.strand([ExpertRows(expert=1, rows=(0, 2))], 11.0)
    assert progress.gives_up_at == 12.0
    assert progress.unavailable().rows == (0, 2)
    patient = Progress(rig.work({1: {0: (0,)}}, n_rows=1))
    patient.strand([call(0)], 10.0)
    assert patient.gives_up_at == patient.work.deadline
