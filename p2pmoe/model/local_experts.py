"""All routed experts in this process: the single-process oracle.

Reads every routed expert of a model file and computes each call through the kernel,
coded and decoded by the profile like anyone else's, so that its tokens are those of
any scattered run.
"""

from collections.abc import Mapping, Sequence
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
from p2pmoe.weights.experts import expert_layers, expert_ranges, read_expert
from p2pmoe.weights.manifest import expert_layout
from p2pmoe.weights.model_file import ModelFile
from p2pmoe.weights.names import expert_activation, model_size

__all__ = ["LocalExperts", "LocalLayer", "LocalPending", "read_expert_weights"]


def read_expert_weights(model_file: ModelFile, expert: ExpertId) -> ExpertWeights:
    """Read one expert's matrices; ModelFileError, FormatUnsupported."""
    ranges = expert_ranges(model_file, expert)
    layout = expert_layout(ranges, expert_activation(model_file))
    return expert_weights(read_expert(model_file, ranges), layout)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalLayer:
    """One layer's experts by index, each as a call that takes every row."""

    calls: tuple[KernelCall, ...]
    kinds: frozenset[bool]  # of input that they read, see `linear`

    @classmethod
    def of(cls, weights: Sequence[ExpertWeights]) -> Self:
        """Return the layer that has these experts."""
        matrices = [m for own in weights for m in (own.gate, own.up)]
        return cls(
            calls=tuple(KernelCall(weights=own) for own in weights),
            kinds=kinds_of(matrices),
        )


class LocalExperts:
    """An `ExpertCaller` that has all experts at hand."""

    def __init__(
        self,
        layers: Mapping[int, LocalLayer],
        kernel: Kernel,
        profile: Profile = Profile.R16,
    ) -> None:
        """Compute the experts of these layers."""
        self.layers = layers
        self.kernel = kernel
        self.operations = operations_for(kernel)
        self.profile = profile

    @classmethod
    def load(
        cls, model_file: ModelFile, kernel: Kernel, profile: Profile = Profile.R16
    ) -> Self:
        """Read all routed experts of a file into memory, in the file's own bytes."""
        indices = range(model_size(model_file, "expert_count"))
        layers = {
            layer: LocalLayer.of(
                [read_expert_weights(model_file, ExpertId(layer, i)) for i in indices]
            )
            for layer in expert_layers(model_file)
        }
        return cls(layers, kernel, profile)

    def begin(self, layer: int, hidden: Floats, routing: Routing) -> "LocalPending":
        """Note the calls of one layer; `finish` computes them."""
        return LocalPending(
            caller=self, layer=self.layers[layer], hidden=hidden, routing=routing
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalPending:
    """Experts of one layer, computed when asked for."""

    caller: LocalExperts
    layer: LocalLayer
    hidden: Floats
    routing: Routing

    def finish(self) -> Floats:
        """Compute all calls and mix them; NonFinite."""
        caller, calls = self.caller, self.layer.calls
        rows = rows_by_expert(self.routing)
        if len(self.hidden) == 1:
            own_calls = [calls[expert] for expert in rows]
        else:
            own_calls = [
                KernelCall(weights=calls[expert].weights, rows=own)
                for expert, own in rows.items()
            ]
        coded = code_input(caller.kernel, self.hidden, self.layer.kinds)
        values = caller.kernel.expert_values(own_calls, coded, caller.profile)
        pairs = zip(rows.items(), values, strict=True)
        outputs = {expert: (own, part) for (expert, own), part in pairs}
        return combine(self.routing, outputs, caller.operations)
