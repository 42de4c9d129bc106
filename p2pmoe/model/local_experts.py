"""All routed experts in this process: the single-process oracle.

Reads every routed expert of a model file and computes each call through the kernel,
coded and decoded by the profile like anyone else's, so that its tokens are those of
any scattered run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.kernel import Kernel, KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.shard import expert_weights
from p2pmoe.model.combine import combine, rows_by_expert
from p2pmoe.model.experts import Routing
from p2pmoe.model.linear import code_input, kinds_of
from p2pmoe.model.native_operations import operations_for
from p2pmoe.model.row_operations import RowOperations
from p2pmoe.weights.experts import expert_layers, expert_ranges, read_expert
from p2pmoe.weights.manifest import expert_layout
from p2pmoe.weights.model_file import ModelFile
from p2pmoe.weights.names import expert_activation, model_size

__all__ = ["ExpertSource", "LocalExperts", "LocalPending", "read_expert_weights"]

ExpertSource = Callable[[ExpertId], ExpertWeights]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalPending:
    """Experts of one layer, computed when asked for."""

    source: ExpertSource
    kernel: Kernel
    operations: RowOperations
    profile: Profile
    layer: int
    hidden: Floats
    routing: Routing

    def finish(self) -> Floats:
        """Compute all calls and mix them; NonFinite."""
        rows = rows_by_expert(self.routing)
        alone = len(self.hidden) == 1
        calls = [
            KernelCall(
                weights=self.source(ExpertId(self.layer, expert)),
                rows=None if alone else own,
            )
            for expert, own in rows.items()
        ]
        kinds = kinds_of(m for c in calls for m in (c.weights.gate, c.weights.up))
        coded = code_input(self.kernel, self.hidden, kinds)
        values = self.kernel.expert_values(calls, coded, self.profile)
        outputs = {
            expert: (own, part)
            for (expert, own), part in zip(rows.items(), values, strict=True)
        }
        return combine(self.routing, outputs, self.operations)


def read_expert_weights(model_file: ModelFile, expert: ExpertId) -> ExpertWeights:
    """Read one expert's matrices; ModelFileError, FormatUnsupported."""
    ranges = expert_ranges(model_file, expert)
    layout = expert_layout(ranges, expert_activation(model_file))
    return expert_weights(read_expert(model_file, ranges), layout)


class LocalExperts:
    """An `ExpertCaller` that has all experts at hand."""

    def __init__(
        self, source: ExpertSource, kernel: Kernel, profile: Profile = Profile.R16
    ) -> None:
        """Take experts from `source`, which returns the same object each time."""
        self._source = source
        self._kernel = kernel
        self._operations = operations_for(kernel)
        self._profile = profile

    @classmethod
    def load(
        cls, model_file: ModelFile, kernel: Kernel, profile: Profile = Profile.R16
    ) -> Self:
        """Read all routed experts of a file into memory, in the file's own bytes."""
        weights = {
            expert: read_expert_weights(model_file, expert)
            for layer in expert_layers(model_file)
            for index in range(model_size(model_file, "expert_count"))
            for expert in [ExpertId(layer, index)]
        }
        return cls(weights.__getitem__, kernel, profile)

    def begin(self, layer: int, hidden: Floats, routing: Routing) -> LocalPending:
        """Note the calls of one layer; `finish` computes them."""
        return LocalPending(
            source=self._source,
            kernel=self._kernel,
            operations=self._operations,
            profile=self._profile,
            layer=layer,
            hidden=hidden,
            routing=routing,
        )
