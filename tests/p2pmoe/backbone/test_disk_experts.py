"""The interface to experts on disk: what is behind it keeps its rules."""

from p2pmoe.backbone.disk import DiskTier
from p2pmoe.backbone.disk_experts import DiskAnswer, DiskExperts


def test_positioned_reads_are_one_way_to_have_experts_from_disk() -> None:
    kind: type[DiskExperts] = DiskTier
    assert kind is DiskTier


def test_an_answer_says_what_it_cost() -> None:
    answer = DiskAnswer(values={}, read_bytes={1: 10, 4: 0}, lost=(3,))
    assert (answer.lost, answer.n_hits) == ((3,), 1)
    assert answer.major_faults == 0
