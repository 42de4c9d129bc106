"""GLM-4-MoE: sigmoid routing with a bias, shared experts, a few dense layers first.

The block count includes the next-token blocks, as in GGUF; their tensors are left out,
since the model does not use them.
"""

from typing import Final

from p2pmoe.weights.huggingface.config import Config
from p2pmoe.weights.huggingface.keys import (
    MAX_COUNT,
    SIGMOID,
    attention_keys,
    expert_keys,
    next_blocks,
    prefixed,
    size_keys,
)
from p2pmoe.weights.huggingface.layers import (
    add_attention,
    add_experts,
    add_feed_forward,
    add_output,
    set_aside_next_blocks,
)
from p2pmoe.weights.huggingface.rope import partial_rotary, rope_keys
from p2pmoe.weights.huggingface.tensor_table import TensorTable
from p2pmoe.weights.metadata import MetadataValue

__all__ = ["ARCHITECTURE", "NAMES", "metadata", "tensors"]

ARCHITECTURE: Final = "glm4moe"
NAMES: Final = ("Glm4MoeForCausalLM",)
_ROTATED: Final = 0.5  # of a head, unless the configuration says otherwise


def metadata(config: Config) -> dict[str, MetadataValue]:
    """Return GGUF's keys; ModelFileError or UnsupportedModel naming the key."""
    config.must_be("hidden_act", "silu")
    config.must_be("scoring_func", "sigmoid")
    n_next = next_blocks(config)
    n_layers = config.integer("num_hidden_layers", high=MAX_COUNT)
    head_dim = config.integer("hidden_size") // config.integer("num_attention_heads")
    head_dim = config.integer("head_dim", head_dim)
    keys = size_keys(config) | attention_keys(config) | expert_keys(config)
    keys |= rope_keys(config, partial=True)
    keys["block_count"] = n_layers + n_next
    keys["rope.dimension_count"] = partial_rotary(config, head_dim, _ROTATED)
    keys["expert_feed_forward_length"] = config.integer("moe_intermediate_size")
    keys["expert_shared_count"] = config.integer("n_shared_experts", low=0)
    keys["leading_dense_block_count"] = config.integer("first_k_dense_replace", low=0)
    keys["expert_gating_func"] = SIGMOID
    keys["expert_weights_norm"] = config.flag("norm_topk_prob", default=True)
    if "num_nextn_predict_layers" in config:
        keys["nextn_predict_layers"] = n_next
    return prefixed(ARCHITECTURE, keys)


def tensors(table: TensorTable, config: Config) -> None:
    """Give every tensor its place; ModelFileError if one is missing or misshapen."""
    n_layers = config.integer("num_hidden_layers")
    add_output(table, is_tied=config.flag("tie_word_embeddings", default=False))
    for layer in range(n_layers):
        stem, target = f"model.layers.{layer}", f"blk.{layer}"
        table.copy(f"{target}.attn_norm.weight", f"{stem}.input_layernorm.weight")
        add_attention(table, layer)
        norm = f"{stem}.post_attention_layernorm.weight"
        table.copy(f"{target}.post_attention_norm.weight", norm)
        if not table.has(f"{stem}.mlp.gate.weight"):
            add_feed_forward(table, layer, f"{stem}.mlp")
            continue
        table.copy(f"{target}.ffn_gate_inp.weight", f"{stem}.mlp.gate.weight")
        bias = f"{stem}.mlp.gate.e_score_correction_bias"
        table.copy(f"{target}.exp_probs_b.bias", bias)
        add_experts(table, layer, f"{stem}.mlp", config.integer("n_routed_experts"))
        if config.integer("n_shared_experts", low=0):
            shared = f"{stem}.mlp.shared_experts"
            add_feed_forward(table, layer, shared, suffix="_shexp")
    set_aside_next_blocks(table, n_layers, next_blocks(config))
