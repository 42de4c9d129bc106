"""A seeded model in GGUF's keys and names, as llama.cpp's converter would write it.

Written apart from the project's own translation of publishers' folders on purpose: each
is held against the other.
"""

from pathlib import Path
from typing import Any

import numpy as np

from tests.support.gguf_writer import TensorBytes, write_gguf
from tests.support.seeded_models import (
    N_EMBD,
    N_EXPERT,
    N_FF,
    N_HEADS,
    N_VOCAB,
    Case,
)
from tests.support.seeded_weights import weights_of

__all__ = ["metadata_of", "tensors_of", "write_case"]

# GGUF's names, in order of first match; the publisher's expert e is stacked.
_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_a_proj": "attn_q_a",
    "self_attn.q_a_layernorm": "attn_q_a_norm",
    "self_attn.q_b_proj": "attn_q_b",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.sinks": "attn_sinks",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
    "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b",
    "mlp.router": "ffn_gate_inp",
    "mlp.gate": "ffn_gate_inp",
    "block_sparse_moe.gate": "ffn_gate_inp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
    "mlp.shared_experts.up_proj": "ffn_up_shexp",
    "mlp.shared_experts.down_proj": "ffn_down_shexp",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_EXPERT_PARTS = {
    "gate_proj": "gate",
    "up_proj": "up",
    "down_proj": "down",
    "w1": "gate",
    "w3": "up",
    "w2": "down",
}


def metadata_of(case: Case) -> dict[str, object]:
    """Return GGUF's metadata, without a tokenizer."""
    config = case.config
    n_latent = case.size("kv_lora_rank")
    keys: dict[str, object] = {
        "block_count": case.size("num_hidden_layers"),
        "context_length": case.size("max_position_embeddings"),
        "embedding_length": N_EMBD,
        "feed_forward_length": case.size("intermediate_size"),
        "attention.head_count": N_HEADS,
        "attention.head_count_kv": 1 if n_latent else case.size("num_key_value_heads"),
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "vocab_size": N_VOCAB,
        "expert_count": N_EXPERT,
        "expert_used_count": case.size("num_experts_per_tok"),
        "rope.dimension_count": case.size("qk_rope_head_dim") or case.head,
        **_rope_keys(case),
    }
    if n_latent:
        keys |= _latent_keys(case)
    elif case.architecture != "olmoe" and case.model_type != "qwen2_moe":
        keys |= {"attention.key_length": case.head, "attention.value_length": case.head}
    if case.architecture in {
        "qwen2moe",
        "qwen3moe",
        "gpt-oss",
        "glm4moe",
        "deepseek2",
        "minimax-m2",
    }:
        keys["expert_feed_forward_length"] = N_FF
    if case.architecture == "qwen2moe":
        keys["expert_shared_feed_forward_length"] = 64
    if case.architecture in {"glm4moe", "deepseek2"}:
        keys |= _group_keys(case)
    if case.architecture == "glm4moe":
        keys["rope.dimension_count"] = case.head // 2
    if case.architecture == "minimax-m2":
        keys["rope.dimension_count"] = case.size("rotary_dim")
        keys["expert_gating_func"] = 2
    if config.get("sliding_window"):
        keys["attention.sliding_window"] = config["sliding_window"]
    if config.get("clip_qkv"):
        keys["attention.clamp_kqv"] = config["clip_qkv"]
    own = {f"{case.architecture}.{key}": value for key, value in keys.items()}
    return {"general.architecture": case.architecture, **own}


def _rope(case: Case) -> dict[str, Any]:
    rope = case.config["rope_parameters"]
    if not isinstance(rope, dict):
        raise TypeError("rope_parameters")
    return rope


def _rope_keys(case: Case) -> dict[str, object]:
    rope = _rope(case)
    kind = rope["rope_type"]
    keys: dict[str, object] = {"freq_base": rope["rope_theta"]}
    if kind in {"linear", "yarn", "longrope"}:
        keys["scaling.type"] = kind
    if kind in {"linear", "yarn"}:
        keys["scaling.factor"] = rope["factor"]
    if kind in {"yarn", "longrope"}:
        n_original = rope["original_max_position_embeddings"]
        keys["scaling.original_context_length"] = n_original
    if "mscale_all_dim" in rope:
        keys["scaling.yarn_log_multiplier"] = 0.1 * rope["mscale_all_dim"]
    if "attention_factor" in rope:
        keys["scaling.yarn_attn_factor"] = rope["attention_factor"]
    for border in ("beta_fast", "beta_slow"):
        if border in rope:
            keys[f"scaling.yarn_{border}"] = rope[border]
    return {f"rope.{key}": value for key, value in keys.items()}


def _rope_tensors(case: Case) -> dict[str, np.ndarray]:
    """Return what divides each pair's frequency."""
    rope = _rope(case)
    if rope["rope_type"] == "longrope":
        return {
            f"rope_factors_{kind}.weight": np.array(rope[f"{kind}_factor"], np.float32)
            for kind in ("long", "short")
        }
    if rope["rope_type"] != "llama3":
        return {}
    half = case.head // 2
    waves = 2 * np.pi * rope["rope_theta"] ** (np.arange(half) / half)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    turns = rope["original_max_position_embeddings"] / waves
    share = np.clip((turns - low) / (high - low), 0.0, 1.0)
    divisors = 1 / ((1 - share) / rope["factor"] + share)
    return {"rope_freqs.weight": divisors.astype(np.float32)}


def _latent_keys(case: Case) -> dict[str, object]:
    n_latent, n_rope = case.size("kv_lora_rank"), case.size("qk_rope_head_dim")
    keys: dict[str, object] = {
        "attention.kv_lora_rank": n_latent,
        "attention.key_length": n_latent + n_rope,
        "attention.value_length": n_latent,
        "attention.key_length_mla": case.size("qk_nope_head_dim") + n_rope,
        "attention.value_length_mla": case.size("v_head_dim"),
    }
    if case.size("q_lora_rank"):
        keys["attention.q_lora_rank"] = case.size("q_lora_rank")
    return keys


def _group_keys(case: Case) -> dict[str, object]:
    keys: dict[str, object] = {
        "leading_dense_block_count": case.size("first_k_dense_replace"),
        "expert_shared_count": case.size("n_shared_experts"),
        "expert_weights_scale": case.config["routed_scaling_factor"],
    }
    if case.size("n_group") > 1:
        keys["expert_group_count"] = case.size("n_group")
        keys["expert_group_used_count"] = case.size("topk_group")
    if case.config["norm_topk_prob"]:
        keys["expert_weights_norm"] = True
    if case.model_type != "deepseek_v2":
        keys["expert_gating_func"] = 2
    return keys


def tensors_of(case: Case) -> dict[str, np.ndarray]:
    """Return all tensors in GGUF's names and shapes, f32."""
    tensors = _rope_tensors(case)
    stacks: dict[str, list[np.ndarray]] = {}
    for name, values in weights_of(case).items():
        block, rest = "", name
        if name.startswith("model.layers."):
            _, _, number, rest = name.split(".", 3)
            block = f"blk.{number}."
        expert = rest.partition(".experts.")[2]
        if case.model_type == "gpt_oss" and expert:
            tensors |= _oss_experts(block, expert, values)
        elif expert:
            part = _EXPERT_PARTS[expert.split(".")[1]]
            stacks.setdefault(f"{block}ffn_{part}_exps.weight", []).append(values)
        elif rest.endswith("kv_b_proj.weight"):
            tensors |= _split_latent(case, block, values)
        else:
            tensors[_renamed(case, block, rest)] = _reordered(case, rest, values)
    return tensors | {name: np.stack(parts) for name, parts in stacks.items()}


def _renamed(case: Case, block: str, rest: str) -> str:
    if rest.endswith("e_score_correction_bias"):
        return f"{block}exp_probs_b.bias"
    if rest.endswith("sinks"):
        return f"{block}attn_sinks.weight"
    stem, _, kind = rest.rpartition(".")
    name = _NAMES[stem]
    if name == "ffn_norm" and case.architecture in {"glm4moe", "gpt-oss"}:
        name = "post_attention_norm"
    return f"{block}{name}.{kind}"


def _reordered(case: Case, rest: str, values: np.ndarray) -> np.ndarray:
    """Put halves of a head side by side for `llama`; a gate of one row is a vector."""
    if case.architecture == "llama" and rest.startswith(("self_attn.q", "self_attn.k")):
        halves = values.reshape(-1, 2, case.head // 2, values.shape[1])
        return halves.swapaxes(1, 2).reshape(values.shape)
    return values[0] if rest == "mlp.shared_expert_gate.weight" else values


def _split_latent(case: Case, block: str, values: np.ndarray) -> dict[str, np.ndarray]:
    n_nope = case.size("qk_nope_head_dim")
    heads = values.reshape(N_HEADS, -1, values.shape[1])
    return {
        f"{block}attn_k_b.weight": heads[:, :n_nope].swapaxes(1, 2),
        f"{block}attn_v_b.weight": heads[:, n_nope:],
    }


def _oss_experts(block: str, name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Gate and up alternate in the publisher's columns, which are GGUF's rows."""
    kind = "bias" if name.endswith("_bias") else "weight"
    if kind == "weight":
        values = values.swapaxes(1, 2)
    if name.startswith("down"):
        return {f"{block}ffn_down_exps.{kind}": values}
    return {
        f"{block}ffn_gate_exps.{kind}": values[:, 0::2],
        f"{block}ffn_up_exps.{kind}": values[:, 1::2],
    }


def write_case(
    case: Case,
    folder: Path,
    metadata: dict[str, object] | None = None,
    tensors: dict[str, np.ndarray | None] | None = None,
) -> Path:
    """Write a case's GGUF file; None drops a key or tensor, other values replace it."""
    keys = metadata_of(case) | (metadata or {})
    content = tensors_of(case) | (tensors or {})
    return write_gguf(
        folder / f"{case.name}.gguf",
        {key: value for key, value in keys.items() if value is not None},
        [
            TensorBytes(
                name=name,
                type=0,
                shape=values.shape,
                content=np.ascontiguousarray(values, "<f4").tobytes(),
            )
            for name, values in content.items()
            if values is not None
        ],
    )
