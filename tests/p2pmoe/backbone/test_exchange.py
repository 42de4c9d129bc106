"""What crosses between the threads is plain values with one queue."""

from p2pmoe.backbone.exchange import LayerDone, Reason
from tests.support.backbone import DispatchRig


def test_each_work_has_a_queue_of_its_own() -> None:
    rig = DispatchRig({})
    one, other = rig.work({}), rig.work({})
    one.replies.put(LayerDone(values={}))
    assert other.replies.empty()
    assert not one.replies.empty()


def test_who_waits_for_several_is_told_of_the_first() -> None:
    rig, rung = DispatchRig({}), []
    early, late = rig.work({}), rig.work({})
    early.replies.put(LayerDone(values={}))
    early.replies.notify(lambda: rung.append("early"))
    late.replies.notify(lambda: rung.append("late"))
    assert rung == ["early"]
    late.replies.put(LayerDone(values={}))
    assert rung == ["early", "late"]
    assert isinstance(late.replies.get(), LayerDone)


def test_reasons_are_words_for_metrics() -> None:
    assert {reason.value for reason in Reason} >= {"lost", "late", "refused", "arith"}
