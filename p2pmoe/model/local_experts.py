"""All routed experts in this process: the single-process oracle.

Computes each call through the kernel, coded and decoded by the profile like anyone
else's, so that its tokens are those of any scattered run. An expert is read from the
model file, and checked, when it is first called, and kept from then on.
"""

from dataclasses import dataclass
from typing import Self

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.kernel import Kernel, KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from p2pmoe.model.combine import combine, rows_by_expert
from p2pmoe.model.experts import Routing
from p2pmoe.model.native_operations import operations_for
from p2pmoe.weights.expert_file import ExpertFile
from p2pmoe.weights.model_file import ModelFile

__all__ = ["LocalExperts", "LocalPending", "read_expert_weights"]


def read_expert_weights(model_file: ModelFile, expert: ExpertId) -> ExpertWeights:
    """Read one expert's matrices; ModelFileError, FormatUnsupported."""
    return ExpertFile(model_file).weights(expert)


class LocalExperts:
    """An `ExpertCaller` that has all experts at hand; for one thread at a time."""

    def __init__(
        self, experts: ExpertFile, kernel: Kernel, profile: Profile = Profile.R16
    ) -> None:
        """Compute the experts of a file."""
        self.experts = experts
        self.kernel = kernel
        self.operations = operations_for(kernel)
        self.profile = profile
        self._calls: dict[tuple[int, int], KernelCall] = {}  # by layer and index

    @classmethod
    def load(
        cls, model_file: ModelFile, kernel: Kernel, profile: Profile = Profile.R16
    ) -> Self:
        """Promise all routed experts of a file; UnsupportedModel, ModelFileError."""
        return cls(ExpertFile(model_file), kernel, profile)

    def call(self, layer: int, index: int) -> KernelCall:
        """Return the call of an expert that takes every row.

        Raises:
            ModelFileError: it cannot be read, or holds no numbers.
            FormatUnsupported: naming the expert.
        """
        call = self._calls.get((layer, index))
        if call is None:
            weights = self.experts.weights(ExpertId(layer, index))
            call = self._calls[layer, index] = KernelCall(weights=weights)
        return call

    def begin(self, layer: int, hidden: Floats, routing: Routing) -> "LocalPending":
        """Note the calls of one layer; `finish` computes them."""
        return LocalPending(caller=self, layer=layer, hidden=hidden, routing=routing)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalPending:
    """Experts of one layer, computed when asked for."""

    caller: LocalExperts
    layer: int
    hidden: Floats
    routing: Routing

    def finish(self) -> Floats:
        """Compute all calls and mix them; NonFinite, and as `LocalExperts.call`."""
        caller = self.caller
        rows = rows_by_expert(self.routing)
        calls = [caller.call(self.layer, expert) for expert in rows]
        if len(self.hidden) > 1:
            calls = [
                KernelCall(weights=call.weights, rows=own)
                for call, own in zip(calls, rows.values(), strict=True)
            ]
        coded = caller.experts.code(self.layer, self.hidden, caller.kernel)
        values = caller.kernel.expert_values(calls, coded, caller.profile)
        pairs = zip(rows.items(), values, strict=True)
        outputs = {expert: (own, part) for (expert, own), part in pairs}
        return combine(self.routing, outputs, caller.operations)
