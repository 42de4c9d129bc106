"""Mixtral: GGUF's `llama` with experts.

Queries and keys are permuted: llama.cpp rotates neighbouring pairs of this
architecture, Hugging Face pairs half a head apart.
"""

from typing import Final

from p2pmoe.weights.huggingface.config import Config
from p2pmoe.weights.huggingface.keys import (
    attention_keys,
    expert_keys,
    prefixed,
    size_keys,
)
from p2pmoe.weights.huggingface.layers import add_experts, add_output
from p2pmoe.weights.huggingface.rope import rope_keys
from p2pmoe.weights.huggingface.tensor_table import TensorTable
from p2pmoe.weights.huggingface.views import permute_heads
from p2pmoe.weights.metadata import MetadataValue

__all__ = ["ARCHITECTURE", "NAMES", "metadata", "tensors"]

ARCHITECTURE: Final = "llama"
NAMES: Final = ("MixtralForCausalLM",)


def metadata(config: Config) -> dict[str, MetadataValue]:
    """Return GGUF's keys; ModelFileError or UnsupportedModel naming the key."""
    config.must_be("hidden_act", "silu")
    head_dim = config.integer("hidden_size") // config.integer("num_attention_heads")
    keys = size_keys(config) | attention_keys(config) | expert_keys(config)
    keys |= rope_keys(config)
    keys["rope.dimension_count"] = config.integer("head_dim", head_dim)
    if "sliding_window" in config:
        keys["attention.sliding_window"] = config.integer("sliding_window")
    return prefixed(ARCHITECTURE, keys)


def tensors(table: TensorTable, config: Config) -> None:
    """Give every tensor its place; ModelFileError if one is missing or misshapen."""
    n_heads = config.integer("num_attention_heads")
    n_kv_heads = config.integer("num_key_value_heads", n_heads)
    add_output(table, is_tied=config.flag("tie_word_embeddings", default=False))
    for layer in range(config.integer("num_hidden_layers")):
        stem, target = f"model.layers.{layer}", f"blk.{layer}"
        table.copy(f"{target}.attn_norm.weight", f"{stem}.input_layernorm.weight")
        for word, heads in (("q", n_heads), ("k", n_kv_heads)):
            name = f"{target}.attn_{word}.weight"
            view = table.view(f"{stem}.self_attn.{word}_proj.weight", name)
            table.add(name, permute_heads(view, heads))
        table.copy(f"{target}.attn_v.weight", f"{stem}.self_attn.v_proj.weight")
        table.copy(f"{target}.attn_output.weight", f"{stem}.self_attn.o_proj.weight")
        norm = f"{stem}.post_attention_layernorm.weight"
        table.copy(f"{target}.ffn_norm.weight", norm)
        router = table.first_of(
            f"{stem}.block_sparse_moe.gate.weight", f"{stem}.mlp.gate.weight"
        )
        table.copy(f"{target}.ffn_gate_inp.weight", router)
        moe = router.removesuffix(".gate.weight")
        add_experts(table, layer, moe, config.integer("num_local_experts"))
