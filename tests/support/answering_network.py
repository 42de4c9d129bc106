"""A network in this thread: every expert has a holder, which answers when asked to."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.cost import WorkerCost
from p2pmoe.backbone.exchange import LayerDone, LayerWork
from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.backbone.places import Network
from p2pmoe.backbone.plan import Holder, Tier
from p2pmoe.model.local_experts import read_expert_weights
from relay.keys import PeerId

__all__ = ["AnsweringNetwork"]

_PEER = PeerId(b"w" * 32)


@dataclass
class AnsweringNetwork:
    """One worker that holds all; with `waits` it answers when told to."""

    side: LocalSide
    waits: bool = False
    asked: list[LayerWork] = field(default_factory=list)

    @property
    def network(self) -> Network:
        """The way to it."""
        return Network(fleet=self, submit=self._submit, report=lambda *_: None)

    def holders(self, layer: int) -> Mapping[int, tuple[Holder, ...]]:
        """Return the worker for every expert."""
        holder = Holder(peer=_PEER, tier=Tier.EDGE, cost=WorkerCost())
        n_expert = self.side.model.description.n_expert
        return dict.fromkeys(range(n_expert), (holder,))

    def _submit(self, work: LayerWork) -> None:
        self.asked.append(work)
        if not self.waits:
            self.answer(work)

    def answer(self, work: LayerWork) -> None:
        """Give the right rows for all calls of a work."""
        calls = [call for message in work.plan.remote for call in message.calls]
        jobs = [
            KernelCall(
                weights=read_expert_weights(
                    self.side.model_file, ExpertId(work.plan.layer, call.expert)
                ),
                rows=np.array(call.rows, np.int64),
            )
            for call in calls
        ]
        values = self.side.kernel.expert_values(jobs, work.rows, work.profile)
        found = {call.expert: y for call, y in zip(calls, values, strict=True)}
        work.replies.put(LayerDone(values=found))
