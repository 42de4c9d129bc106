"""All routed experts in this process: the single-process oracle.

Computes each call through the kernel, coded and decoded by the profile like anyone
else's, so that its tokens are those of any scattered run. An expert is read from the
model file, and checked, when it is first called, and kept from then on.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from p2pmoe.model.experts import ExpertsHere, Routing
from p2pmoe.model.native_operations import operations_for
from p2pmoe.model.products import products_for
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
        self.products = products_for(kernel)
        self.profile = profile
        self._layers: dict[int, dict[int, ExpertWeights]] = {}

    @classmethod
    def load(
        cls, model_file: ModelFile, kernel: Kernel, profile: Profile = Profile.R16
    ) -> Self:
        """Promise all routed experts of a file; UnsupportedModel, ModelFileError."""
        return cls(ExpertFile(model_file), kernel, profile)

    def layer(self, layer: int, indices: Iterable[int]) -> dict[int, ExpertWeights]:
        """Return a layer's experts so far, read for the first time or not.

        `indices` are among them then. Raises:
            ModelFileError: one cannot be read, or holds no numbers.
            FormatUnsupported: naming the expert.
        """
        known = self._layers.setdefault(layer, {})
        for index in indices:
            if index not in known:
                known[index] = self.experts.weights(ExpertId(layer, index))
        return known

    def begin(self, layer: int, hidden: Floats, routing: Routing) -> "LocalPending":
        """Note the calls of one layer; `finish` computes them."""
        return LocalPending(caller=self, layer=layer, hidden=hidden, routing=routing)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalPending(ExpertsHere):
    """Experts of one layer, computed when asked for."""

    caller: LocalExperts
    layer: int
    hidden: Floats
    routing: Routing

    def finish(self) -> Floats:
        """Compute all calls and mix them; NonFinite, and as `LocalExperts.layer`."""
        caller, chosen = self.caller, self.routing.experts
        weights = caller.layer(self.layer, set(chosen.ravel().tolist()))
        values = caller.products.routed(weights, chosen, self.hidden, caller.profile)
        return caller.operations.weighted_sum(values, self.routing.weights)
