"""A model as the backbone sees it: everything but the routed experts.

`load_model` reads embeddings, attention, routers, norms, dense layers and shared
experts of a file and picks the architecture that its metadata names. The routed
experts are asked for through an `ExpertCaller`, layer by layer.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.kernel import Kernel
from p2pmoe.model.architectures import (
    deepseek2,
    glm4_moe,
    gpt_oss,
    minimax_m2,
    minimax_m3,
    mixtral,
    olmoe,
    qwen2_moe,
    qwen3_moe,
)
from p2pmoe.model.description import ModelDescription
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.experts import ExpertCaller
from p2pmoe.model.kv_cache import KvCache
from p2pmoe.model.logits import Logits
from p2pmoe.model.native_operations import operations_for
from p2pmoe.model.router import Router
from p2pmoe.model.row_operations import RowOperations
from p2pmoe.model.step import SequencePart
from p2pmoe.model.walk import Routes, Walk
from p2pmoe.weights.model_file import ModelFile
from p2pmoe.weights.model_header import ModelHeader

__all__ = [
    "Logits",
    "Model",
    "SequencePart",
    "architectures",
    "describe_model",
    "load_model",
]


class Model(Protocol):
    """One loaded model; safe to use from several threads, each with its own cache."""

    @property
    def description(self) -> ModelDescription:
        """The model's sizes."""
        ...

    def routers(self) -> Mapping[int, Router]:
        """Return the routers by layer, of the layers that have routed experts."""
        ...

    def new_cache(self, n_tokens: int, *, limit: int | None = None) -> KvCache:
        """Return an empty cache for up to `n_tokens` positions.

        It may grow to `limit`, by default not at all. Caches that prefixes are copied
        between need the same limit: what a cache keeps depends on it. Raises CacheFull
        beyond the model's context.
        """
        ...

    def step(
        self, parts: Sequence[SequencePart], experts: ExpertCaller
    ) -> list[Floats]:
        """Run each part's tokens at the end of its cache.

        Returns for each part f32 [0, 1 or n_tokens, n_vocab], as its `logits` says. A
        layer's experts are asked for the rows of all parts at once, in the order of the
        parts. No row depends on which others are in the step, to the bit. Either all
        caches advance or, if anything is raised, none, and the step may be run again,
        whole or in pieces. Raises CacheFull, TokenRefused, NonFinite, and whatever
        `experts` raises; ValueError for two parts with one cache.
        """
        ...

    def walk(
        self,
        parts: Sequence[SequencePart],
        experts: ExpertCaller,
        routes: Routes | None = None,
    ) -> Walk:
        """Begin a step that stops at each layer's experts; a `step` is its whole run.

        `routes` says which experts each layer's rows go to, by default the router.
        Caches advance at the end of the run. Raises as `step`, here or as it advances.
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
        """Run one sequence's tokens: a step of one part, and its logits."""
        ...


_Load = Callable[[ModelFile, Kernel, RowOperations], Model]
_Describe = Callable[[ModelHeader], ModelDescription]

# general.architecture -> (loader, describer)
_ARCHITECTURES: Final[dict[str, tuple[_Load, _Describe]]] = {
    deepseek2.ARCHITECTURE: (deepseek2.load, deepseek2.describe),
    glm4_moe.ARCHITECTURE: (glm4_moe.load, glm4_moe.describe),
    gpt_oss.ARCHITECTURE: (gpt_oss.load, gpt_oss.describe),
    minimax_m2.ARCHITECTURE: (minimax_m2.load, minimax_m2.describe),
    minimax_m3.ARCHITECTURE: (minimax_m3.load, minimax_m3.describe),
    mixtral.ARCHITECTURE: (mixtral.load, mixtral.describe),
    olmoe.ARCHITECTURE: (olmoe.load, olmoe.describe),
    qwen2_moe.ARCHITECTURE: (qwen2_moe.load, qwen2_moe.describe),
    qwen3_moe.ARCHITECTURE: (qwen3_moe.load, qwen3_moe.describe),
}

# Known, but not to be run until something exists to check a run against.
_NOT_RUN: Final = {
    "kimi-k3": (
        "Kimi-K3 is not run here: there is no reference to check its hybrid linear "
        "attention and latent experts against"
    ),
}


def architectures() -> tuple[str, ...]:
    """Return GGUF's names of the architectures that can be run, sorted."""
    return tuple(sorted(_ARCHITECTURES))


def load_model(model_file: ModelFile, kernel: Kernel) -> Model:
    """Load all but the routed experts, with the row operations of the kernel.

    Raises ModelRefused, FormatUnsupported, ModelFileError.
    """
    load = _ARCHITECTURES[_architecture(model_file)][0]
    return load(model_file, kernel, operations_for(kernel))


def describe_model(header: ModelHeader) -> ModelDescription:
    """Read a model's sizes from its header alone; raises as `load_model`."""
    return _ARCHITECTURES[_architecture(header)][1](header)


def _architecture(header: ModelHeader) -> str:
    name = header.metadata.text("general.architecture")
    if name in _NOT_RUN:
        raise ModelRefused(
            f"{header.path}: {_NOT_RUN[name]}",
            advice="look at it with `p2pmoe models inspect`, or run another model",
        )
    if name not in _ARCHITECTURES:
        known = ", ".join(architectures())
        raise ModelRefused(
            f"{header.path}: architecture {name[:80]!r} is not one of: {known}"
        )
    return name
