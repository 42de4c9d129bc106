"""One layer's calls in the hands of the child, and what becomes of them.

The child's reader thread hands its answers in, the decode thread waits for them. When
the child is gone, or nobody expects anything more of it, what was not answered is
computed here. Nothing that was answered counts if the file was written to meanwhile.
"""

import threading
import time
from typing import TYPE_CHECKING, Protocol

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.disk_experts import DiskAnswer, DiskCall, DiskWork
from p2pmoe.backbone.mapped.messages import Reason, Refused, Values
from p2pmoe.weights.errors import ModelFileError

if TYPE_CHECKING:
    from p2pmoe.backbone.mapped.life import ChildLife

__all__ = ["MappedTier", "PendingMapped"]

_LOOK_S = 1.0


class MappedTier(Protocol):
    """What pending calls ask of the tier that they belong to."""

    def has_changed(self) -> bool:
        """Whether the file was written to since it was opened."""
        ...

    def forget(self, pending: "PendingMapped") -> None:
        """Drop what a child may still say to these calls."""
        ...

    def look_after(self, pending: "PendingMapped") -> None:
        """End a child that hangs over these calls."""
        ...

    def note_read(self, said: Values) -> None:
        """Count one answer of the child."""
        ...

    def note_lost(self, expert: ExpertId, reason: str) -> None:
        """Keep that an expert cannot be had, and say so once."""
        ...

    def compute(self, work: DiskWork, call: DiskCall) -> tuple[Floats, int]:
        """Compute here what no child did; the values, and the bytes read."""
        ...


class PendingMapped:
    """One layer's calls, in the hands of the child."""

    def __init__(self, tier: MappedTier, job: int, work: DiskWork) -> None:
        """Wait for what the child makes of `work`."""
        self._tier = tier
        self.job = job
        self.work = work
        self.child: ChildLife | None = None
        self.since = time.monotonic()
        self._left = {call.expert: call for call in work.calls}
        self._answers: dict[int, Values] = {}
        self._refused: dict[int, Refused] = {}
        self._over = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether nothing more is expected of a child."""
        return self._over.is_set()

    def heard(self, said: Values | Refused) -> None:
        """Take one answer of the child."""
        index = said.expert.index
        if self._left.pop(index, None) is None:
            return
        if isinstance(said, Values):
            self._answers[index] = said
        else:
            self._refused[index] = said
        if not self._left:
            self._over.set()

    def give_up(self) -> None:
        """Expect nothing more of a child."""
        self._over.set()

    def abandon(self) -> None:
        """Give the calls up; the child's answers are dropped."""
        self._tier.forget(self)
        self._over.set()

    def finish(self) -> DiskAnswer:
        """Return all values; see `PendingDisk`."""
        while not self._over.wait(_LOOK_S):
            self._tier.look_after(self)
        self._tier.forget(self)
        for refused in self._refused.values():
            if refused.reason is Reason.NON_FINITE:
                raise NonFinite(refused.text)
        if self._tier.has_changed():
            return self._all_lost()
        return self._answer()

    def _all_lost(self) -> DiskAnswer:
        lost = tuple(sorted(call.expert for call in self.work.calls))
        for index in lost:
            self._tier.note_lost(
                ExpertId(self.work.layer, index),
                "it was written to since it was opened",
            )
        return DiskAnswer(values={}, read_bytes={}, lost=lost)

    def _answer(self) -> DiskAnswer:
        layer, lost = self.work.layer, []
        values: dict[int, Floats] = {}
        read_bytes: dict[int, int] = {}
        answers, left = dict(self._answers), dict(self._left)
        for index, said in answers.items():
            values[index], read_bytes[index] = said.values, said.counts.read_bytes
            self._tier.note_read(said)
        for index, refused in self._refused.items():
            lost.append(index)
            self._tier.note_lost(ExpertId(layer, index), refused.text)
        for index, call in left.items():
            try:
                values[index], read_bytes[index] = self._tier.compute(self.work, call)
            except ModelFileError:
                lost.append(index)
        counts = [said.counts for said in answers.values()]
        return DiskAnswer(
            values=values,
            read_bytes=read_bytes,
            lost=tuple(sorted(lost)),
            minor_faults=sum(one.minor_faults for one in counts),
            major_faults=sum(one.major_faults for one in counts),
        )
