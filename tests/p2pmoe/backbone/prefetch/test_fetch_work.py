"""What is handed over: a queue of its own for each work."""

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.prefetch.fetch_work import FetchWork, Lack, Lacking, Wanted
from tests.support.backbone import peer_id


def test_each_work_has_its_own_replies() -> None:
    wanted = Wanted(expert=ExpertId(1, 2), peer=peer_id(1))
    one, other = FetchWork(wanted=(wanted,)), FetchWork(wanted=(wanted,))
    one.replies.put(Lacking(wanted=wanted, why=Lack.BUSY))
    assert other.replies.empty()
    assert one.replies.get_nowait() == Lacking(wanted=wanted, why=Lack.BUSY)
    assert one != other, "works are known by identity"
