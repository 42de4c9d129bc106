"""MiniMax-M2: sigmoid routing with a bias, QK norms over all heads, partial RoPE."""

from typing import Final

from p2pmoe.weights.huggingface.config import Config
from p2pmoe.weights.huggingface.keys import (
    SIGMOID,
    attention_keys,
    expert_keys,
    prefixed,
    size_keys,
)
from p2pmoe.weights.huggingface.layers import add_attention, add_experts, add_output
from p2pmoe.weights.huggingface.rope import partial_rotary, rope_keys, rope_section
from p2pmoe.weights.huggingface.tensor_table import TensorTable
from p2pmoe.weights.metadata import MetadataValue

__all__ = ["ARCHITECTURE", "NAMES", "metadata", "tensors"]

ARCHITECTURE: Final = "minimax-m2"
NAMES: Final = ("MiniMaxM2ForCausalLM",)


def metadata(config: Config) -> dict[str, MetadataValue]:
    """Return GGUF's keys; ModelFileError or UnsupportedModel naming the key."""
    config.must_be("hidden_act", "silu")
    config.must_be("scoring_func", "sigmoid")
    config.must_be("qk_norm_type", "per_layer")
    config.must_be("use_qk_norm", True)
    config.must_be("use_routing_bias", True)
    config.must_be("shared_intermediate_size", 0)
    if "attn_type_list" in config and set(config.integers("attn_type_list")) != {1}:
        raise config.unsupported("attn_type_list")  # linear attention
    keys = size_keys(config) | attention_keys(config) | expert_keys(config)
    keys |= rope_keys(config, partial=True)
    keys["expert_gating_func"] = SIGMOID
    keys["expert_feed_forward_length"] = config.integer("intermediate_size")
    keys["rope.dimension_count"] = _rotated(config)
    return prefixed(ARCHITECTURE, keys)


def tensors(table: TensorTable, config: Config) -> None:
    """Give every tensor its place; ModelFileError if one is missing or misshapen."""
    add_output(table, is_tied=config.flag("tie_word_embeddings", default=False))
    for layer in range(config.integer("num_hidden_layers")):
        stem, target = f"model.layers.{layer}", f"blk.{layer}"
        table.copy(f"{target}.attn_norm.weight", f"{stem}.input_layernorm.weight")
        add_attention(table, layer)
        norm = f"{stem}.post_attention_layernorm.weight"
        table.copy(f"{target}.ffn_norm.weight", norm)
        router = table.first_of(
            f"{stem}.block_sparse_moe.gate.weight", f"{stem}.mlp.gate.weight"
        )
        table.copy(f"{target}.ffn_gate_inp.weight", router)
        moe = router.removesuffix(".gate.weight")
        table.copy(f"{target}.exp_probs_b.bias", f"{moe}.e_score_correction_bias")
        add_experts(table, layer, moe, config.integer("num_local_experts"))
    table.set_aside(r"(.*\.)?mtp\w*\..*")


def _rotated(config: Config) -> int:
    """Return how many values of a head are turned: all, if neither key says."""
    n_heads = config.integer("num_attention_heads")
    head_dim = config.integer("head_dim", config.integer("hidden_size") // n_heads)
    share = partial_rotary(config, head_dim)
    n_rotated = config.integer("rotary_dim", share)
    key = "partial_rotary_factor"
    if share != n_rotated and (key in config or key in rope_section(config)):
        raise config.unsupported("rotary_dim")
    return n_rotated
