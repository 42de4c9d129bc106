"""MiniMax-M3, the text part: block-sparse attention behind an indexer.

Norms are stored as their distance from 1 and get it added; the indexer stays in F32. On
the hub the text part is nested in a model with pictures (`text_config`, names that
begin with `language_model.`), and the indexer and the experts have older names; what
belongs to pictures is left out.
"""

from typing import Final

from p2pmoe.weights.huggingface.config import Config
from p2pmoe.weights.huggingface.keys import (
    SIGMOID,
    Keys,
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
from p2pmoe.weights.huggingface.rope import partial_rotary, rope_keys
from p2pmoe.weights.huggingface.tensor_table import TensorTable
from p2pmoe.weights.huggingface.views import plus_one
from p2pmoe.weights.metadata import MetadataValue

__all__ = ["ARCHITECTURE", "NAMES", "metadata", "tensors"]

ARCHITECTURE: Final = "minimax-m3"
NAMES: Final = (
    "MiniMaxM3SparseForCausalLM",
    "MiniMaxM3SparseForConditionalGeneration",
    "MiniMaxM3VLForCausalLM",  # the text model as transformers saves it
    "MiniMaxM3VLForConditionalGeneration",
)
# GGUF's key of the indexer -> the configuration's, now and in `sparse_attention_config`
_INDEXER: Final = {
    "head_count": ("index_n_heads", "sparse_num_index_heads"),
    "key_length": ("index_head_dim", "sparse_index_dim"),
    "top_k": ("index_topk_blocks", "sparse_topk_blocks"),
    "block_size": ("index_block_size", "sparse_block_size"),
    "local_blocks": ("index_local_blocks", "sparse_local_block"),
}
_PICTURES: Final = r"(model\.)?(vision_tower|multi_modal_projector|patch_merge_mlp)\..*"


def metadata(config: Config) -> dict[str, MetadataValue]:
    """Return GGUF's keys; ModelFileError or UnsupportedModel naming the key."""
    config.must_be("hidden_act", "silu", "swigluoai")
    config.must_be("scoring_func", "sigmoid")
    config.must_be("swiglu_alpha", 1.702)
    config.must_be("swiglu_limit", 7.0)
    config.must_be("use_gemma_norm", True)
    config.must_be("attention_output_gate", False)
    config.must_be("qk_norm_type", "per_head")
    head_dim = config.integer("head_dim")
    n_ff = config.integer("intermediate_size")
    keys = size_keys(config, feed_forward="dense_intermediate_size")
    keys |= (
        attention_keys(config) | expert_keys(config) | rope_keys(config, partial=True)
    )
    keys |= _indexer_keys(config)
    rotated = partial_rotary(config, head_dim)
    keys["rope.dimension_count"] = config.integer("rotary_dim", rotated)
    keys["expert_feed_forward_length"] = n_ff
    shared = config.integer("shared_intermediate_size", n_ff) // n_ff
    keys["expert_shared_count"] = config.integer("n_shared_experts", shared, low=0)
    keys["expert_weights_norm"] = True
    keys["expert_gating_func"] = SIGMOID
    keys["leading_dense_block_count"] = _leading_dense(config)
    return prefixed(ARCHITECTURE, keys)


def tensors(table: TensorTable, config: Config) -> None:
    """Give every tensor its place; ModelFileError if one is missing or misshapen."""
    add_output(table, is_tied=config.flag("tie_word_embeddings", default=False))
    for layer in range(config.integer("num_hidden_layers")):
        stem, target = f"model.layers.{layer}", f"blk.{layer}"
        table.copy(f"{target}.attn_norm.weight", f"{stem}.input_layernorm.weight")
        add_attention(table, layer)
        _add_indexer(table, layer)
        norm = f"{stem}.post_attention_layernorm.weight"
        table.copy(f"{target}.ffn_norm.weight", norm)
        router = table.first_of(
            f"{stem}.mlp.gate.weight", f"{stem}.block_sparse_moe.gate.weight"
        )
        if not table.has(router):
            add_feed_forward(table, layer, f"{stem}.mlp")
            continue
        table.copy(f"{target}.ffn_gate_inp.weight", router)
        moe = router.removesuffix(".gate.weight")
        bias = table.first_of(
            f"{moe}.gate.e_score_correction_bias", f"{moe}.e_score_correction_bias"
        )
        table.copy(f"{target}.exp_probs_b.bias", bias)
        add_experts(table, layer, moe, config.integer("num_local_experts"))
        add_feed_forward(table, layer, f"{moe}.shared_experts", suffix="_shexp")
    for name, view in table.tensors.items():
        if name.endswith("norm.weight"):
            table.add(name, plus_one(view))
    table.set_aside(_PICTURES)
    table.set_aside(r"(.*\.)?mtp\..*")


def _add_indexer(table: TensorTable, layer: int) -> None:
    stem = f"model.layers.{layer}.self_attn"
    for word in ("q_proj", "k_proj", "q_norm", "k_norm"):
        name = table.first_of(
            f"{stem}.indexer.{word}.weight", f"{stem}.index_{word}.weight"
        )
        if table.has(name):
            table.copy(f"blk.{layer}.indexer.{word}.weight", name)


def _indexer_keys(config: Config) -> Keys:
    older = config.section("sparse_attention_config")
    older.must_be("use_sparse_attention", True)
    older.must_be("sparse_score_type", "max")
    older.must_be("sparse_init_block", 0)
    keys: Keys = {}
    for gguf, (now, before) in _INDEXER.items():
        holder, key = (older, before) if before in older else (config, now)
        keys[f"attention.indexer.{gguf}"] = holder.integer(key)
    return keys


def _leading_dense(config: Config) -> int:
    if "mlp_layer_types" in config:
        key = "mlp_layer_types"
        is_sparse = [kind == "sparse" for kind in config.texts(key)]
    elif "moe_layer_freq" in config:
        key = "moe_layer_freq"
        is_sparse = [kind != 0 for kind in config.integers(key)]
    else:
        return 0
    n_dense = is_sparse.index(True) if True in is_sparse else len(is_sparse)
    if not all(is_sparse[n_dense:]):
        raise config.unsupported(key)
    return n_dense
