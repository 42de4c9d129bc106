"""OLMoE: every layer has experts; QK norms go over all heads at once."""

from typing import Final

from p2pmoe.weights.huggingface.config import Config
from p2pmoe.weights.huggingface.keys import (
    attention_keys,
    expert_keys,
    prefixed,
    size_keys,
)
from p2pmoe.weights.huggingface.layers import add_attention, add_experts, add_output
from p2pmoe.weights.huggingface.rope import rope_keys
from p2pmoe.weights.huggingface.tensor_table import TensorTable
from p2pmoe.weights.metadata import MetadataValue

__all__ = ["ARCHITECTURE", "NAMES", "metadata", "tensors"]

ARCHITECTURE: Final = "olmoe"
NAMES: Final = ("OlmoeForCausalLM",)


def metadata(config: Config) -> dict[str, MetadataValue]:
    """Return GGUF's keys; ModelFileError or UnsupportedModel naming the key."""
    config.must_be("hidden_act", "silu")
    keys = size_keys(config) | attention_keys(config) | expert_keys(config)
    if config.flag("norm_topk_prob", default=False):
        keys["expert_weights_norm"] = True
    if "clip_qkv" in config:
        keys["attention.clamp_kqv"] = config.real("clip_qkv")
    return prefixed(ARCHITECTURE, keys | rope_keys(config))


def tensors(table: TensorTable, config: Config) -> None:
    """Give every tensor its place; ModelFileError if one is missing or misshapen."""
    add_output(table, is_tied=config.flag("tie_word_embeddings", default=False))
    for layer in range(config.integer("num_hidden_layers")):
        stem, target = f"model.layers.{layer}", f"blk.{layer}"
        table.copy(f"{target}.attn_norm.weight", f"{stem}.input_layernorm.weight")
        add_attention(table, layer)
        norm = f"{stem}.post_attention_layernorm.weight"
        table.copy(f"{target}.ffn_norm.weight", norm)
        table.copy(f"{target}.ffn_gate_inp.weight", f"{stem}.mlp.gate.weight")
        add_experts(table, layer, f"{stem}.mlp", config.integer("num_experts"))
