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
from p2pmoe.errors import Cancelled
from tests.support.backbone import DispatchRig, peer_id

EXPERTS = (0, 1, 2, 3)


def call(expert: int) -> ExpertRows:
    return ExpertRows(expert=expert, rows=(0,))


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
            progress.take([result(rig, e) for e in sorted(experts)])
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


def test_an_answer_is_taken_whole_or_not_at_all() -> None:
    rig = DispatchRig({})
    progress = Progress(rig.work({1: {0: (0,), 1: (0,)}}, n_rows=1))
    assert not progress.take([result(rig, 0), result(rig, 3)])
    assert set(progress.open) == {0, 1}
    assert progress.take([result(rig, 0)])
    assert not progress.take([result(rig, 0)])


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
