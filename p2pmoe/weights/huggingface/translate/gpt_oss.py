"""gpt-oss: biases everywhere, attention sinks, YaRN, experts in MXFP4.

Rows of gate and up alternate in `gate_up_proj`. Published in MXFP4 it is
[n_expert, 2 n_ff, n_embd]; in a float format it is stored turned, [n_expert, n_embd,
2 n_ff], as is `down_proj`.
"""

from typing import Final

from p2pmoe.weights.huggingface.config import Config
from p2pmoe.weights.huggingface.keys import (
    attention_keys,
    expert_keys,
    prefixed,
    size_keys,
)
from p2pmoe.weights.huggingface.layers import add_attention, add_linear, add_output
from p2pmoe.weights.huggingface.rope import rope_keys
from p2pmoe.weights.huggingface.tensor_table import TensorTable
from p2pmoe.weights.huggingface.views import every_other, transpose
from p2pmoe.weights.metadata import MetadataValue

__all__ = ["ARCHITECTURE", "NAMES", "metadata", "tensors"]

ARCHITECTURE: Final = "gpt-oss"
NAMES: Final = ("GptOssForCausalLM",)
_KINDS: Final = {"full_attention", "sliding_attention"}


def metadata(config: Config) -> dict[str, MetadataValue]:
    """Return GGUF's keys; ModelFileError or UnsupportedModel naming the key."""
    config.must_be("hidden_act", "silu")
    config.must_be("swiglu_alpha", 1.702)
    config.must_be("swiglu_limit", 7.0)
    keys = size_keys(config) | attention_keys(config) | expert_keys(config)
    keys |= rope_keys(config, truncates=False)
    keys["attention.sliding_window"] = config.integer("sliding_window")
    keys["expert_feed_forward_length"] = config.integer("intermediate_size")
    return prefixed(ARCHITECTURE, keys) | _window_pattern(config)


def tensors(table: TensorTable, config: Config) -> None:
    """Give every tensor its place; ModelFileError if one is missing or misshapen."""
    add_output(table, is_tied=config.flag("tie_word_embeddings", default=False))
    for layer in range(config.integer("num_hidden_layers")):
        stem, target = f"model.layers.{layer}", f"blk.{layer}"
        table.copy(f"{target}.attn_norm.weight", f"{stem}.input_layernorm.weight")
        add_attention(table, layer)
        table.copy(f"{target}.attn_sinks.weight", f"{stem}.self_attn.sinks")
        norm = f"{stem}.post_attention_layernorm.weight"
        table.copy(f"{target}.post_attention_norm.weight", norm)
        add_linear(table, f"{target}.ffn_gate_inp", f"{stem}.mlp.router")
        _add_experts(table, layer)


def _window_pattern(config: Config) -> dict[str, MetadataValue]:
    """Return which layers are windowed, unless it is every second from the first on."""
    if "layer_types" not in config:
        return {}
    kinds = config.texts("layer_types")
    if len(kinds) != config.integer("num_hidden_layers") or not set(kinds) <= _KINDS:
        raise config.wrong("layer_types", "is no list of one known word a layer")
    is_windowed = tuple(kind == "sliding_attention" for kind in kinds)
    if is_windowed == tuple(layer % 2 == 0 for layer in range(len(kinds))):
        return {}
    return {f"{ARCHITECTURE}.attention.sliding_window_pattern": is_windowed}


def _add_experts(table: TensorTable, layer: int) -> None:
    stem, target = f"model.layers.{layer}.mlp.experts", f"blk.{layer}"
    gate_name, up_name, down_name = (
        f"{target}.ffn_{word}_exps" for word in ("gate", "up", "down")
    )
    if table.has(f"{stem}.gate_up_proj_blocks"):
        both, down = (
            table.mxfp4(f"{stem}.gate_up_proj"),
            table.mxfp4(f"{stem}.down_proj"),
        )
    else:
        both = transpose(table.view(f"{stem}.gate_up_proj", f"{gate_name}.weight"))
        down = transpose(table.view(f"{stem}.down_proj", f"{down_name}.weight"))
    gate, up = every_other(both)
    table.add(f"{gate_name}.weight", gate)
    table.add(f"{up_name}.weight", up)
    table.add(f"{down_name}.weight", down)
    biases = table.view(f"{stem}.gate_up_proj_bias", f"{gate_name}.bias")
    gate_bias, up_bias = every_other(biases, of_columns=True)
    table.add(f"{gate_name}.bias", gate_bias)
    table.add(f"{up_name}.bias", up_bias)
    table.copy(f"{down_name}.bias", f"{stem}.down_proj_bias")
