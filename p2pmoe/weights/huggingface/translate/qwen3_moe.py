"""Qwen3-MoE: QK norms by head; a layer without a router is dense."""

from typing import Final

from p2pmoe.weights.huggingface.config import Config
from p2pmoe.weights.huggingface.keys import (
    attention_keys,
    expert_keys,
    prefixed,
    size_keys,
)
from p2pmoe.weights.huggingface.layers import (
    add_attention,
    add_experts,
    add_feed_forward,
    add_output,
)
from p2pmoe.weights.huggingface.rope import rope_keys
from p2pmoe.weights.huggingface.tensor_table import TensorTable
from p2pmoe.weights.metadata import MetadataValue

__all__ = ["ARCHITECTURE", "NAMES", "metadata", "tensors"]

ARCHITECTURE: Final = "qwen3moe"
NAMES: Final = ("Qwen3MoeForCausalLM",)


def metadata(config: Config) -> dict[str, MetadataValue]:
    """Return GGUF's keys; ModelFileError or UnsupportedModel naming the key."""
    config.must_be("hidden_act", "silu")
    config.must_be("use_sliding_window", False)
    keys = size_keys(config) | attention_keys(config) | expert_keys(config)
    keys["expert_feed_forward_length"] = config.integer("moe_intermediate_size")
    if not config.flag("norm_topk_prob", default=False):
        keys["expert_weights_norm"] = False
    return prefixed(ARCHITECTURE, keys | rope_keys(config))


def tensors(table: TensorTable, config: Config) -> None:
    """Give every tensor its place; ModelFileError if one is missing or misshapen."""
    n_expert = config.integer(
        "num_experts" if "num_experts" in config else "num_local_experts"
    )
    add_output(table, is_tied=config.flag("tie_word_embeddings", default=False))
    for layer in range(config.integer("num_hidden_layers")):
        stem, target = f"model.layers.{layer}", f"blk.{layer}"
        table.copy(f"{target}.attn_norm.weight", f"{stem}.input_layernorm.weight")
        add_attention(table, layer)
        norm = f"{stem}.post_attention_layernorm.weight"
        table.copy(f"{target}.ffn_norm.weight", norm)
        if not table.has(f"{stem}.mlp.gate.weight"):
            add_feed_forward(table, layer, f"{stem}.mlp")
            continue
        table.copy(f"{target}.ffn_gate_inp.weight", f"{stem}.mlp.gate.weight")
        add_experts(table, layer, f"{stem}.mlp", n_expert)
