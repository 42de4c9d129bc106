"""What a MiniMax-M3 file's metadata says, every number bounded before it is used.

A number from a file sizes loops and memory, so it has a bound far above any model that
exists (faults B01); what the tensors' own shapes tell is checked where they are read.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from p2pmoe.model.block_selection import BlockSelection
from p2pmoe.model.choice import RouterSettings, ScoreFunction
from p2pmoe.model.errors import ModelRefused
from p2pmoe.weights.model_file import ModelFile

__all__ = ["ARCHITECTURE", "MAX_CONTEXT", "Settings", "positive", "read_settings"]

ARCHITECTURE: Final = "minimax-m3"
MAX_CONTEXT: Final = 1 << 24
_MAX_SIZE: Final = 1 << 16  # of layers, heads, experts, widths


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the metadata says, beside the description."""

    n_heads: int
    n_kv_heads: int
    head_dim: int
    n_rotated: int
    rope_base: float
    eps: np.float32
    n_leading_dense: int
    router: RouterSettings
    n_index_heads: int
    index_dim: int
    selection: BlockSelection


def positive(
    model_file: ModelFile,
    key: str,
    default: int | None = None,
    *,
    high: int = _MAX_SIZE,
) -> int:
    """Return the architecture's integer `key`, 1..high; ModelFileError else."""
    return model_file.metadata.integer(
        f"{ARCHITECTURE}.{key}", default, low=1, high=high
    )


def read_settings(model_file: ModelFile) -> Settings:
    """Read and check the metadata.

    Raises:
        ModelFileError: a key is missing, of another type or out of bounds.
        ModelRefused: the values contradict each other.
    """
    metadata = model_file.metadata
    prefix = f"{ARCHITECTURE}."
    function = positive(model_file, "expert_gating_func", ScoreFunction.SIGMOID)
    if function not in {ScoreFunction.SOFTMAX, ScoreFunction.SIGMOID}:
        raise ModelRefused(f"unknown expert_gating_func {function}")
    settings = Settings(
        n_heads=positive(model_file, "attention.head_count"),
        n_kv_heads=positive(model_file, "attention.head_count_kv"),
        head_dim=positive(model_file, "attention.key_length"),
        n_rotated=positive(model_file, "rope.dimension_count"),
        rope_base=metadata.real(prefix + "rope.freq_base"),
        eps=np.float32(metadata.real(prefix + "attention.layer_norm_rms_epsilon")),
        n_leading_dense=metadata.integer(
            prefix + "leading_dense_block_count", 0, high=_MAX_SIZE
        ),
        router=RouterSettings(
            score_function=ScoreFunction(function),
            top_k=positive(model_file, "expert_used_count"),
            norm=metadata.flag(prefix + "expert_weights_norm", default=True),
            scale=metadata.real(prefix + "expert_weights_scale"),
        ),
        n_index_heads=positive(model_file, "attention.indexer.head_count", 1),
        index_dim=positive(model_file, "attention.indexer.key_length", 8),
        selection=BlockSelection(
            top_k=positive(model_file, "attention.indexer.top_k", 1),
            block_size=positive(model_file, "attention.indexer.block_size", 1),
            n_local=positive(model_file, "attention.indexer.local_blocks", 1),
        ),
    )
    if metadata.integer(prefix + "expert_group_count", 0) > 1:
        raise ModelRefused("experts in groups, which this architecture does not have")
    _refuse_odd_heads(model_file, settings)
    _refuse_odd_figures(settings)
    return settings


def _refuse_odd_heads(model_file: ModelFile, own: Settings) -> None:
    if own.n_heads % own.n_kv_heads or own.head_dim % 8 or own.index_dim % 8:
        raise ModelRefused(
            f"heads {own.n_heads} over {own.n_kv_heads} of {own.head_dim} values"
        )
    if own.n_rotated % 2 or own.n_rotated > own.head_dim:
        raise ModelRefused(f"rotary over {own.n_rotated} of {own.head_dim} values")
    if positive(model_file, "attention.value_length") != own.head_dim:
        raise ModelRefused("values of another length than keys")


def _refuse_odd_figures(own: Settings) -> None:
    if not own.rope_base >= 1.0:
        raise ModelRefused(f"rope.freq_base {own.rope_base} is below 1")
    if not 0.0 <= own.eps < 1.0:
        raise ModelRefused(f"attention.layer_norm_rms_epsilon {own.eps} is not 0 to 1")
    if abs(own.router.scale) > float(np.finfo(np.float32).max):
        raise ModelRefused(f"expert_weights_scale {own.router.scale} is no f32 value")
