"""A model as the backbone sees it: everything but the routed experts.

`load_model` reads embeddings, attention, routers, norms, dense layers and shared
experts of a file and picks the architecture that its metadata names. The routed
experts are asked for through an `ExpertCaller`, layer by layer.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.kernel import Kernel
from p2pmoe.model.architectures import minimax_m3
from p2pmoe.model.description import ModelDescription
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.experts import ExpertCaller
from p2pmoe.model.kv_cache import KvCache
from p2pmoe.model.logits import Logits
from p2pmoe.model.native_operations import operations_for
from p2pmoe.model.row_operations import RowOperations
from p2pmoe.weights.model_file import ModelFile

__all__ = ["Logits", "Model", "describe_model", "load_model"]


class Model(Protocol):
    """One loaded model; safe to use from several threads, each with its own cache."""

    @property
    def description(self) -> ModelDescription:
        """The model's sizes."""
        ...

    def new_cache(self, n_tokens: int) -> KvCache:
        """Return an empty cache for up to `n_tokens` positions.

        Raises CacheFull beyond the model's context.
        """
        ...

    def forward(
        self,
        tokens: Sequence[int],
        cache: KvCache,
        experts: ExpertCaller,
        *,
        logits: Logits = Logits.LAST,
    ) -> Floats:
        """Run tokens at the cache's end; returns f32 [1 or n_tokens, n_vocab].

        The cache advances only if the step succeeds. The result of a token does not
        depend on which others are in the same step. Raises CacheFull, TokenRefused,
        NonFinite, and whatever `experts` raises.
        """
        ...


# general.architecture -> (loader, describer)
_ARCHITECTURES: dict[
    str,
    tuple[
        Callable[[ModelFile, Kernel, RowOperations], Model],
        Callable[[ModelFile], ModelDescription],
    ],
] = {
    minimax_m3.ARCHITECTURE: (minimax_m3.load, minimax_m3.describe),
}


def load_model(model_file: ModelFile, kernel: Kernel) -> Model:
    """Load all but the routed experts, with the row operations of the kernel.

    Raises ModelRefused, FormatUnsupported, ModelFileError.
    """
    load = _ARCHITECTURES[_architecture(model_file)][0]
    return load(model_file, kernel, operations_for(kernel))


def describe_model(model_file: ModelFile) -> ModelDescription:
    """Read a model's sizes from its metadata alone; raises as `load_model`."""
    return _ARCHITECTURES[_architecture(model_file)][1](model_file)


def _architecture(model_file: ModelFile) -> str:
    name = model_file.metadata.text("general.architecture")
    if name not in _ARCHITECTURES:
        known = ", ".join(sorted(_ARCHITECTURES))
        raise ModelRefused(
            f"{model_file.path}: architecture {name!r} is not one of: {known}"
        )
    return name
