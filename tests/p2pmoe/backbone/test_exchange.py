"""What crosses between the threads is plain values with one queue."""

from p2pmoe.backbone.exchange import LayerDone, Reason
from tests.support.backbone import DispatchRig


def test_each_work_has_a_queue_of_its_own() -> None:
    rig = DispatchRig({})
    one, other = rig.work({}), rig.work({})
    one.replies.put(LayerDone(values={}))
    assert other.replies.empty()
    assert not one.replies.empty()


def test_reasons_are_words_for_metrics() -> None:
    assert {reason.value for reason in Reason} >= {"lost", "late", "refused", "arith"}
