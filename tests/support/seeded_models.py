"""Small models whose weights come from a seed, for references that need no weights.

A case is a publisher's config.json. `seeded_weights` makes its weights: whoever makes a
reference (tests/vectors/models_from_transformers.py) and whoever tests against it make
the same numbers. `seeded_gguf` says the same model in GGUF's terms.
"""

import zlib
from dataclasses import dataclass

import numpy as np

__all__ = ["CASES", "Case", "case_named", "prompt_of"]

N_EMBD, N_VOCAB, N_HEADS, N_EXPERT, N_FF, N_DENSE = 64, 96, 4, 8, 32, 96
HEAD = 32

_COMMON: dict[str, object] = {
    "hidden_size": N_EMBD,
    "vocab_size": N_VOCAB,
    "num_attention_heads": N_HEADS,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "intermediate_size": N_DENSE,
    "max_position_embeddings": 512,
    "rms_norm_eps": 0.01,  # far more than any model has, so that each norm counts
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "dtype": "float32",
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
_PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
_QWEN = {"moe_intermediate_size": N_FF, "num_experts": N_EXPERT}
_DEEPSEEK: dict[str, object] = {
    "num_key_value_heads": N_HEADS,
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
    "head_dim": 16,
    "moe_intermediate_size": N_FF,
    "n_routed_experts": N_EXPERT,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "routed_scaling_factor": 1.0,
    "attention_bias": False,
    "n_group": 1,
    "topk_group": 1,
}


def _yarn(factor: float, n_original: int = 64, **more: object) -> dict[str, object]:
    return {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": factor,
        "original_max_position_embeddings": n_original,
        **more,
    }


@dataclass(frozen=True)
class Case:
    """One model; `config` is the publisher's config.json beyond what all have."""

    name: str
    model_type: str
    architecture: str  # GGUF's
    own: dict[str, object]

    @property
    def config(self) -> dict[str, object]:
        words = {"minimax": "MiniMax"}
        parts = [words.get(part, part.title()) for part in self.model_type.split("_")]
        name = "".join(parts) + "ForCausalLM"
        kind = {"architectures": [name], "model_type": self.model_type}
        return {**kind, **_COMMON, **self.own}

    def size(self, key: str) -> int:
        value = self.config.get(key) or 0
        if not isinstance(value, int):
            raise TypeError(key)
        return value

    @property
    def head(self) -> int:
        return self.size("head_dim") or N_EMBD // N_HEADS

    def is_dense(self, layer: int) -> bool:
        step = self.size("decoder_sparse_step") or 1
        listed = self.config.get("mlp_only_layers") or []
        early = layer < self.size("first_k_dense_replace")
        return early or layer in listed or (layer + 1) % step > 0


_V2 = {"topk_method": "greedy", "norm_topk_prob": False}
_V3 = {"norm_topk_prob": True, "scoring_func": "sigmoid", "rope_interleave": True}

_FIRST = (
    Case(
        "deepseek_v3_yarn",
        "deepseek_v3",
        "deepseek2",
        {
            **_DEEPSEEK,
            **_V3,
            "n_group": 4,
            "topk_group": 2,
            "routed_scaling_factor": 2.5,
            "max_position_embeddings": 2560,
            "rope_parameters": _yarn(40.0, mscale=1.0, mscale_all_dim=1.0),
        },
    ),
    Case(
        "deepseek_v2_yarn",
        "deepseek_v2",
        "deepseek2",
        {
            **_DEEPSEEK,
            **_V2,
            "n_shared_experts": 2,
            "max_position_embeddings": 2560,
            "rope_parameters": _yarn(40.0, mscale=0.707, mscale_all_dim=0.707),
        },
    ),
    Case(
        "deepseek_v2_groups",
        "deepseek_v2",
        "deepseek2",
        {
            **_DEEPSEEK,
            **_V2,
            "topk_method": "group_limited_greedy",
            "n_group": 4,
            "topk_group": 2,
            "num_experts_per_tok": 3,
            "routed_scaling_factor": 4.0,
            "rope_parameters": _PLAIN,
        },
    ),
    Case(
        "deepseek_v2_lite",
        "deepseek_v2",
        "deepseek2",
        {**_DEEPSEEK, **_V2, "q_lora_rank": None, "rope_parameters": _PLAIN},
    ),
    Case(
        "qwen3_moe_yarn",
        "qwen3_moe",
        "qwen3moe",
        {
            **_QWEN,
            "head_dim": HEAD,
            "num_experts_per_tok": 2,
            "norm_topk_prob": True,
            "tie_word_embeddings": True,
            "rope_parameters": _yarn(4.0),
            "max_position_embeddings": 256,
        },
    ),
    Case(
        "glm4_moe_biased",
        "glm4_moe",
        "glm4moe",
        {
            "head_dim": HEAD,
            "partial_rotary_factor": 0.5,
            "attention_bias": True,
            "use_qk_norm": False,
            "first_k_dense_replace": 1,
            "moe_intermediate_size": N_FF,
            "n_routed_experts": N_EXPERT,
            "n_shared_experts": 1,
            "num_experts_per_tok": 2,
            "norm_topk_prob": True,
            "n_group": 1,
            "topk_group": 1,
            "routed_scaling_factor": 1.5,
            "rope_parameters": {**_PLAIN, "partial_rotary_factor": 0.5},
        },
    ),
    Case(
        "qwen2_moe_sparse_step",
        "qwen2_moe",
        "qwen2moe",
        {
            **_QWEN,
            "num_hidden_layers": 4,
            "decoder_sparse_step": 2,
            "mlp_only_layers": [1],
            "num_experts_per_tok": 4,
            "norm_topk_prob": False,
            "shared_expert_intermediate_size": 64,
            "qkv_bias": True,
            "use_sliding_window": False,
            "rope_parameters": _PLAIN,
        },
    ),
    Case(
        "mixtral_window",
        "mixtral",
        "llama",
        {
            "intermediate_size": N_FF,
            "head_dim": HEAD,
            "num_local_experts": N_EXPERT,
            "num_experts_per_tok": 2,
            "sliding_window": 16,
            "rope_parameters": _PLAIN,
        },
    ),
    Case(
        "olmoe_clip",
        "olmoe",
        "olmoe",
        {
            "intermediate_size": N_FF,
            "num_experts": N_EXPERT,
            "num_experts_per_tok": 3,
            "norm_topk_prob": False,
            "clip_qkv": 0.75,
            "rope_parameters": _PLAIN,
        },
    ),
    Case(
        "gpt_oss_yarn",
        "gpt_oss",
        "gpt-oss",
        {
            "intermediate_size": N_FF,
            "head_dim": HEAD,
            "num_local_experts": N_EXPERT,
            "num_experts_per_tok": 3,
            "num_hidden_layers": 4,
            "sliding_window": 16,
            "attention_bias": True,
            "max_position_embeddings": 1024,
            "rope_parameters": {
                **_yarn(32.0, 32, beta_fast=32.0, beta_slow=1.0, truncate=False),
                "rope_theta": 150000.0,
            },
        },
    ),
    Case(
        "minimax_m2_partial",
        "minimax_m2",
        "minimax-m2",
        {
            "intermediate_size": N_FF,
            "head_dim": HEAD,
            "rotary_dim": 16,
            "num_local_experts": N_EXPERT,
            "num_experts_per_tok": 3,
            "scoring_func": "sigmoid",
            "use_qk_norm": True,
            "rope_parameters": {**_PLAIN, "partial_rotary_factor": 0.5},
        },
    ),
    Case(
        "kimi_k2_lite",
        "deepseek_v3",
        "deepseek2",
        {
            **_DEEPSEEK,
            **_V3,
            "q_lora_rank": None,
            "qk_nope_head_dim": 32,
            "v_head_dim": 32,
            "num_experts_per_tok": 3,
            "routed_scaling_factor": 2.827,
            "max_position_embeddings": 2048,
            "rope_parameters": _yarn(
                32.0, beta_fast=1.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0
            ),
        },
    ),
)


def _scaled(name: str, **rope: object) -> Case:
    """Return a Qwen3-MoE with a dense layer and another kind of rotary scaling."""
    own = {
        **_QWEN,
        "head_dim": HEAD,
        "num_experts_per_tok": 2,
        "norm_topk_prob": True,
        "mlp_only_layers": [1],
        "max_position_embeddings": 256,
        "rope_parameters": {"rope_theta": 10000.0, **rope},
    }
    return Case(f"qwen3_moe_{name}", "qwen3_moe", "qwen3moe", own)


_SCALED = (
    _scaled("linear", rope_type="linear", factor=4.0),
    _scaled(
        "magnitude",
        rope_type="yarn",
        factor=4.0,
        original_max_position_embeddings=64,
        attention_factor=0.9,
        beta_fast=16.0,
        beta_slow=2.0,
    ),
    _scaled(
        "llama3",
        rope_type="llama3",
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=64,
    ),
    _scaled(
        "longrope",
        rope_type="longrope",
        original_max_position_embeddings=64,
        short_factor=[1.0 + i / 16 for i in range(16)],
        long_factor=[1.0 + i / 3 for i in range(16)],
    ),
)

CASES = _FIRST + _SCALED


def case_named(name: str) -> Case:
    """Return a case by its name."""
    return next(case for case in CASES if case.name == name)


def prompt_of(case: Case, n: int = 200) -> list[int]:
    """Return the ids of a case's reference."""
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    return [int(i) for i in rng.integers(0, N_VOCAB, n)]
