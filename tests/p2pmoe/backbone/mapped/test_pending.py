"""One layer's calls: answered by the child, or left behind and computed here."""

import numpy as np
import pytest

from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.mapped.messages import Reason, Refused, Values
from p2pmoe.backbone.mapped.pending import PendingMapped
from p2pmoe.backbone.mapped.process_figures import ProcessCounts
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.expert_file import ExpertFile
from tests.support.backbone_model import POCKET, model_of
from tests.support.mapped import disk_work

WORK = disk_work(ExpertFile(model_of(POCKET)), 2, 4, 9, 30)
HERE = np.full((1, 256), 7, np.float32)


class Tier:
    """A tier that notes what it is asked; `unreadable` cannot be had here either."""

    def __init__(self, unreadable: int = -1) -> None:
        self.changed = False
        self.looked = 0
        self.noted: list[int] = []
        self.lost: dict[int, str] = {}
        self.computed: list[int] = []
        self.forgotten = False
        self._unreadable = unreadable

    def has_changed(self) -> bool:
        return self.changed

    def forget(self, pending):
        self.forgotten = True

    def look_after(self, pending):
        self.looked += 1
        pending.give_up()

    def note_read(self, said):
        self.noted.append(said.expert.index)

    def note_lost(self, expert, reason):
        self.lost[expert.index] = reason

    def compute(self, work, call):
        if call.expert == self._unreadable:
            self.lost[call.expert] = "cut short"
            raise ModelFileError(POCKET, "cut short")
        self.computed.append(call.expert)
        return HERE, 55_296


def values(index: int, read: int = 0) -> Values:
    return Values(
        job=1,
        expert=ExpertId(2, index),
        values=np.full((1, 256), index, np.float32),
        micros=5,
        counts=ProcessCounts(2, 1, read),
    )


def refused(index: int, reason: Reason) -> Refused:
    return Refused(job=1, expert=ExpertId(2, index), reason=reason, text="so it is")


def test_it_is_over_with_the_last_answer_and_counts_are_added_up():
    tier = Tier()
    pending = PendingMapped(tier, 1, WORK)
    for index in (30, 4, 9):
        assert not pending.is_over
        pending.heard(values(index, read=4096 * (index == 9)))
    answer = pending.finish()
    assert {e: y[0, 0] for e, y in answer.values.items()} == {4: 4, 9: 9, 30: 30}
    assert answer.read_bytes == {4: 0, 9: 4096, 30: 0}
    assert (answer.minor_faults, answer.major_faults, answer.n_hits) == (6, 3, 2)
    assert sorted(tier.noted) == [4, 9, 30]
    assert tier.forgotten


def test_what_the_child_left_is_computed_here():
    tier = Tier()
    pending = PendingMapped(tier, 1, WORK)
    pending.heard(values(9))
    pending.give_up()
    answer = pending.finish()
    assert tier.computed == [4, 30]
    assert answer.values[9][0, 0] == 9
    assert answer.values[30] is HERE
    assert answer.lost == ()


def test_what_cannot_be_had_here_either_is_lost():
    tier = Tier(unreadable=30)
    pending = PendingMapped(tier, 1, WORK)
    pending.give_up()
    assert pending.finish().lost == (30,)


def test_what_holds_no_numbers_is_lost_and_told():
    tier = Tier()
    pending = PendingMapped(tier, 1, WORK)
    pending.heard(refused(4, Reason.UNFIT))
    pending.heard(values(9))
    pending.heard(values(30))
    assert pending.finish().lost == (4,)
    assert tier.lost == {4: "so it is"}


def test_what_is_not_finite_is_raised_as_by_a_kernel():
    pending = PendingMapped(Tier(), 1, WORK)
    pending.heard(refused(4, Reason.NON_FINITE))
    pending.give_up()
    with pytest.raises(NonFinite, match="so it is"):
        pending.finish()


def test_nothing_counts_if_the_file_was_written_to():
    tier = Tier()
    pending = PendingMapped(tier, 1, WORK)
    for index in (4, 9, 30):
        pending.heard(values(index))
    tier.changed = True
    answer = pending.finish()
    assert (answer.values, answer.lost) == ({}, (4, 9, 30))
    assert set(tier.lost) == {4, 9, 30}
    assert not tier.noted


def test_an_answer_that_nobody_asked_for_is_dropped():
    pending = PendingMapped(Tier(), 1, WORK)
    pending.heard(values(5))
    pending.heard(values(4))
    pending.heard(values(4))
    assert not pending.is_over


def test_who_waits_long_looks_after_the_child(monkeypatch):
    monkeypatch.setattr("p2pmoe.backbone.mapped.pending._LOOK_S", 0.0)
    tier = Tier()
    pending = PendingMapped(tier, 1, WORK)
    assert pending.finish().lost == ()
    assert tier.looked == 1


def test_what_is_abandoned_is_forgotten():
    tier = Tier()
    pending = PendingMapped(tier, 1, WORK)
    pending.abandon()
    assert tier.forgotten
    assert pending.is_over
