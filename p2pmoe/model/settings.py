"""What a model file's metadata says of its sizes, its heads and its router.

What the tensors' own shapes tell is checked where they are read. A flag that a file
lacks takes what the architecture really does (fault B12): each file of `architectures`
states its own default. A key that would change the model in a way that no architecture
here computes is refused rather than passed over (`_MEANINGS`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from p2pmoe.model.attention import AttentionRule
from p2pmoe.model.choice import RouterSettings, ScoreFunction
from p2pmoe.model.description import ModelDescription
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.metadata_keys import MAX_CONTEXT, Keys
from p2pmoe.model.rope_settings import usable_context
from p2pmoe.weights.names import expert_activation, layer_count

__all__ = [
    "HeadSettings",
    "read_description",
    "read_eps",
    "read_heads",
    "read_router",
]

_LANES: Final = 8

# Keys that only some architectures compute, and the value at which they do nothing.
_MEANINGS: Final = {
    "attention.clamp_kqv": 0.0,
    "attention.sliding_window": 0,
    "attention.scale": 0.0,
    "attention.max_alibi_bias": 0.0,
    "attention.shared_kv_layers": 0,
    "attention.temperature_scale": 0.0,
    "embedding_scale": 1.0,
    "expert_group_scale": 1.0,
    "interleave_moe_layer_step": 1,
    "logit_scale": 1.0,
    "moe_every_n_layers": 1,
    "moe_latent_size": 0,
    "residual_scale": 1.0,
    "router_logit_softcapping": 0.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSettings:
    """The heads of grouped-query attention, the same in every layer."""

    n_heads: int
    n_kv_heads: int
    head_dim: int  # of queries, keys and values; a multiple of 8
    soft_cap: float | None = None  # of the scores

    @property
    def n_query(self) -> int:
        """Values of all query heads."""
        return self.n_heads * self.head_dim

    @property
    def rule(self) -> AttentionRule:
        """How scores become weights where the architecture has nothing of its own."""
        return AttentionRule(scale=1.0 / self.head_dim**0.5, soft_cap=self.soft_cap)

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes that one layer's cache takes for a position."""
        return 2 * self.n_kv_heads * self.head_dim * 4


def read_description(
    keys: Keys,
    *,
    kv_bytes_per_layer: int,
    n_ff_expert: int | None = None,
    computed: Sequence[str] = (),
) -> ModelDescription:
    """Read the sizes; a layer is MoE if it has a router (`ffn_gate_inp`).

    Next-token blocks (`nextn_predict_layers`) are no layers of the model. `n_ff_expert`
    is the default where the file lacks the key; `computed` names keys of `_MEANINGS`
    that this architecture computes.

    Raises:
        ModelFileError: a key is missing, of another type or out of bounds.
        ModelRefused: the layers are not those that the metadata promises, or a key
            says what no architecture here computes.
    """
    _refuse_other_meanings(keys, computed)
    n_block = keys.size("block_count")
    n_layer = layer_count(keys.header)
    if n_layer < 1:
        raise ModelRefused(
            f"key {keys.architecture}.nextn_predict_layers leaves none of {n_block} "
            f"blocks"
        )
    return ModelDescription(
        architecture=keys.architecture,
        n_layer=n_layer,
        n_embd=keys.size("embedding_length"),
        n_vocab=keys.header.tensor("token_embd.weight").shape[0],
        n_context=usable_context(keys.header),
        n_expert=keys.size("expert_count"),
        top_k=keys.size("expert_used_count"),
        n_ff_expert=keys.size("expert_feed_forward_length", n_ff_expert),
        moe_layers=_moe_layers(keys, n_layer),
        activation=expert_activation(keys.header),
        kv_bytes_per_token=n_layer * kv_bytes_per_layer,
    )


def read_eps(keys: Keys) -> np.float32:
    """Return the epsilon of all norms."""
    return np.float32(keys.real("attention.layer_norm_rms_epsilon", low=0.0, high=0.99))


def read_heads(keys: Keys) -> HeadSettings:
    """Read the heads of grouped-query attention.

    A file without `key_length` has heads of embedding_length / head_count values.
    Raises ModelRefused for heads that do not fit each other.
    """
    n_heads = keys.size("attention.head_count")
    n_kv_heads = keys.size("attention.head_count_kv", n_heads)
    n_embd = keys.size("embedding_length")
    default = n_embd // n_heads if n_embd % n_heads == 0 else None
    head_dim = keys.size("attention.key_length", default)
    if n_heads % n_kv_heads or head_dim % _LANES:
        raise ModelRefused(
            f"heads {n_heads} over {n_kv_heads} of {head_dim} values: key "
            f"{keys.architecture}.attention.head_count or key_length"
        )
    if keys.size("attention.value_length", head_dim) != head_dim:
        raise ModelRefused(
            f"key {keys.architecture}.attention.value_length: values of another "
            f"length than keys"
        )
    return HeadSettings(
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        head_dim=head_dim,
        soft_cap=keys.soft_cap("attn_logit_softcapping"),
    )


def read_router(
    keys: Keys,
    *,
    functions: Sequence[ScoreFunction],
    norm: bool,
    scale: float | None = 1.0,
) -> RouterSettings:
    """Read how experts are chosen, with the architecture's own defaults.

    Args:
        keys: The file's.
        functions: The score functions that the architecture may have; the first is the
            default.
        norm: Whether chosen scores are divided by their sum if the file does not say.
        scale: The routed scale if the file does not say; None if it must. A file's 0
            is no scaling, as llama.cpp takes it.

    Raises ModelFileError and ModelRefused; both name the key.
    """
    high = float(np.finfo(np.float32).max)
    number = keys.size("expert_gating_func", functions[0], low=0, high=255)
    function = functions[0] if number == 0 else number  # 0: the converter knew none
    if function not in functions:
        raise ModelRefused(
            f"key {keys.architecture}.expert_gating_func: {function} is not one of "
            f"{[int(known) for known in functions]}"
        )
    n_groups = max(1, keys.size("expert_group_count", 1, low=0))
    n_groups_used = keys.size("expert_group_used_count", 0, low=0)
    settings = RouterSettings(
        score_function=ScoreFunction(function),
        top_k=keys.size("expert_used_count"),
        norm=keys.flag("expert_weights_norm", default=norm),
        scale=keys.real("expert_weights_scale", scale, low=-high, high=high) or 1.0,
        n_groups=n_groups,
        n_groups_used=n_groups_used or n_groups,  # unsaid: experts of any group
    )
    settings.check(keys.size("expert_count"))
    return settings


def _moe_layers(keys: Keys, n_layer: int) -> tuple[int, ...]:
    tensors = keys.header.tensors
    layers = tuple(
        layer
        for layer in range(n_layer)
        if f"blk.{layer}.ffn_gate_inp.weight" in tensors
    )
    if not layers:
        raise ModelRefused(
            f"{keys.header.path}: no layer has routed experts (a tensor ffn_gate_inp)"
        )
    if keys.has("leading_dense_block_count"):
        n_dense = keys.size("leading_dense_block_count", low=0)
        if layers != tuple(range(n_dense, n_layer)):
            wrong = min(set(layers) ^ set(range(n_dense, n_layer)))
            raise ModelRefused(
                f"key {keys.architecture}.leading_dense_block_count is {n_dense}, but "
                f"tensor blk.{wrong}.ffn_gate_inp.weight says otherwise"
            )
    return layers


def _refuse_other_meanings(keys: Keys, computed: Sequence[str]) -> None:
    for key, neutral in _MEANINGS.items():
        if key in computed or not keys.has(key):
            continue
        value = keys.header.metadata[f"{keys.architecture}.{key}"]
        if value != neutral and not _hides_nothing(keys, key):
            raise ModelRefused(
                f"key {keys.architecture}.{key} is set, which is not computed here"
            )


def _hides_nothing(keys: Keys, key: str) -> bool:
    """Whether the key gives a window as long as the model may be run."""
    if key != "attention.sliding_window":
        return False
    window = keys.size(key, low=0, high=MAX_CONTEXT)
    return window >= usable_context(keys.header)
