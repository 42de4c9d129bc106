"""DeepSeek-V2 and V3, and Kimi-K2, which is a V3: GGUF's `deepseek2`.

Multi-head latent attention: kv_b_proj [heads * (nope + value), rank] becomes
attn_k_b [heads, rank, nope], each head turned, and attn_v_b [heads, value, rank], so
that one compressed key of rank + rope values stands for all heads. V3 routes by sigmoid
with a bias, V2 by softmax. Next-token blocks are left out.
"""

from typing import Final

from p2pmoe.weights.huggingface.config import Config
from p2pmoe.weights.huggingface.keys import (
    MAX_COUNT,
    SIGMOID,
    Keys,
    attention_keys,
    expert_keys,
    next_blocks,
    prefixed,
    size_keys,
)
from p2pmoe.weights.huggingface.layers import (
    add_experts,
    add_feed_forward,
    add_linear,
    add_output,
    set_aside_next_blocks,
)
from p2pmoe.weights.huggingface.rope import rope_keys, rope_section
from p2pmoe.weights.huggingface.tensor_table import TensorTable
from p2pmoe.weights.huggingface.views import head_parts, transpose
from p2pmoe.weights.metadata import MetadataValue

__all__ = ["ARCHITECTURE", "NAMES", "metadata", "tensors"]

ARCHITECTURE: Final = "deepseek2"
NAMES: Final = ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM")
_V3: Final = "DeepseekV3ForCausalLM"
_V3_SCALE: Final = 2.5  # of the publisher's code where config.json does not say it
_MSCALES: Final = frozenset({"mscale", "mscale_all_dim"})
_PROJECTIONS: Final = {
    "attn_q": "q_proj",
    "attn_q_a": "q_a_proj",
    "attn_q_a_norm": "q_a_layernorm",
    "attn_q_b": "q_b_proj",
    "attn_kv_a_mqa": "kv_a_proj_with_mqa",
    "attn_kv_a_norm": "kv_a_layernorm",
    "attn_output": "o_proj",
}
_OPTIONAL: Final = {"attn_q", "attn_q_a", "attn_q_a_norm", "attn_q_b"}


def metadata(config: Config) -> dict[str, MetadataValue]:
    """Return GGUF's keys; ModelFileError or UnsupportedModel naming the key."""
    config.must_be("hidden_act", "silu")
    config.must_be("moe_layer_freq", 1)
    config.must_be("topk_method", "greedy", "group_limited_greedy", "noaux_tc")
    config.must_be("rope_interleave", True)
    keys = size_keys(config) | attention_keys(config) | expert_keys(config)
    keys |= _latent_keys(config) | _rope_keys(config)
    if config.text("topk_method", "") == "greedy":  # of all experts, whatever groups
        keys["expert_group_count"] = keys["expert_group_used_count"] = 1
    is_v3 = _V3 in config.texts("architectures")
    if is_v3:
        config.must_be("scoring_func", "sigmoid")
        keys["expert_gating_func"] = SIGMOID
        keys["expert_weights_scale"] = config.real("routed_scaling_factor", _V3_SCALE)
    else:  # of V2 with true there are three readings, and no model
        config.must_be("norm_topk_prob", False)
    keys["leading_dense_block_count"] = config.integer(
        "first_k_dense_replace", 0, low=0
    )
    keys["expert_feed_forward_length"] = config.integer("moe_intermediate_size")
    keys["expert_shared_count"] = config.integer("n_shared_experts", 0, low=0)
    if config.flag("norm_topk_prob", default=is_v3):
        keys["expert_weights_norm"] = True
    return prefixed(ARCHITECTURE, keys)


def tensors(table: TensorTable, config: Config) -> None:
    """Give every tensor its place; ModelFileError if one is missing or misshapen."""
    n_layers = config.integer("num_hidden_layers")
    add_output(table, is_tied=config.flag("tie_word_embeddings", default=False))
    for layer in range(n_layers):
        stem, target = f"model.layers.{layer}", f"blk.{layer}"
        table.copy(f"{target}.attn_norm.weight", f"{stem}.input_layernorm.weight")
        _add_attention(table, layer, config)
        norm = f"{stem}.post_attention_layernorm.weight"
        table.copy(f"{target}.ffn_norm.weight", norm)
        if not table.has(f"{stem}.mlp.gate.weight"):
            add_feed_forward(table, layer, f"{stem}.mlp")
            continue
        table.copy(f"{target}.ffn_gate_inp.weight", f"{stem}.mlp.gate.weight")
        bias = f"{stem}.mlp.gate.e_score_correction_bias"
        if table.has(bias):
            table.copy(f"{target}.exp_probs_b.bias", bias)
        add_experts(table, layer, f"{stem}.mlp", config.integer("n_routed_experts"))
        if config.integer("n_shared_experts", 0, low=0):
            shared = f"{stem}.mlp.shared_experts"
            add_feed_forward(table, layer, shared, suffix="_shexp")
    set_aside_next_blocks(table, n_layers, next_blocks(config))


def _add_attention(table: TensorTable, layer: int, config: Config) -> None:
    stem, target = f"model.layers.{layer}.self_attn", f"blk.{layer}"
    for ours, theirs in _PROJECTIONS.items():
        if ours in _OPTIONAL and not table.has(f"{stem}.{theirs}.weight"):
            continue
        add_linear(table, f"{target}.{ours}", f"{stem}.{theirs}")
    sizes = (config.integer("qk_nope_head_dim"), config.integer("v_head_dim"))
    both = table.view(f"{stem}.kv_b_proj.weight", f"{target}.attn_k_b.weight")
    keys, values = head_parts(both, config.integer("num_attention_heads"), sizes)
    table.add(f"{target}.attn_k_b.weight", transpose(keys))
    table.add(f"{target}.attn_v_b.weight", values)


def _latent_keys(config: Config) -> Keys:
    rank = config.integer("kv_lora_rank", high=MAX_COUNT)
    rope = config.integer("qk_rope_head_dim", high=MAX_COUNT)
    nope = config.integer("qk_nope_head_dim", high=MAX_COUNT)
    keys: Keys = {
        "attention.head_count_kv": 1,
        "attention.kv_lora_rank": rank,
        "attention.key_length": rank + rope,
        "attention.value_length": rank,
        "attention.key_length_mla": nope + rope,
        "attention.value_length_mla": config.integer("v_head_dim", high=MAX_COUNT),
        "rope.dimension_count": rope,
    }
    if "q_lora_rank" in config:
        keys["attention.q_lora_rank"] = config.integer("q_lora_rank", high=MAX_COUNT)
    return keys


def _rope_keys(config: Config) -> Keys:
    """GGUF has one key for YaRN's two magnitudes, so they must be equal."""
    keys = rope_keys(config, allowed=_MSCALES)
    section = rope_section(config)
    if keys.get("rope.scaling.type") != "yarn":
        return keys
    if section.real("mscale", 0.0) != section.real("mscale_all_dim", 0.0):
        raise section.unsupported("mscale")
    if "mscale_all_dim" in section:
        scale = 0.1 * section.real("mscale_all_dim")
        keys["rope.scaling.yarn_log_multiplier"] = scale
    return keys
