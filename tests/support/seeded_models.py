"""Small models whose weights come from a seed, for references that need no weights.

A case is a publisher's config.json and the weights in the publisher's names and shapes,
each from a generator seeded by the tensor's name: whoever makes a reference
(tests/vectors/models_from_transformers.py) and whoever tests against it make the same
numbers. `seeded_gguf` says the same model in GGUF's terms.
"""

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["CASES", "Case", "case_named", "prompt_of", "weights_of", "write_folder"]

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


def weights_of(case: Case) -> dict[str, np.ndarray]:
    """Return all weights in the publisher's names, f32."""
    if case.name not in _MADE:
        _MADE[case.name] = {
            name: _seeded(f"{case.name}/{name}", shape) for name, shape in _shapes(case)
        }
    return dict(_MADE[case.name])


_MADE: dict[str, dict[str, np.ndarray]] = {}


def _seeded(name: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    values = rng.standard_normal(shape)
    if name.endswith("norm.weight"):
        values = 1.0 + 0.3 * values
    elif name.endswith("e_score_correction_bias"):
        values *= 0.1
    elif name.endswith(("bias", "sinks")):
        values *= 0.5
    elif not name.endswith("embed_tokens.weight"):
        values *= 1.5 / shape[-1] ** 0.5
    return values.astype(np.float32)


Shapes = Iterator[tuple[str, tuple[int, ...]]]


def _shapes(case: Case) -> Shapes:
    yield "model.embed_tokens.weight", (N_VOCAB, N_EMBD)
    yield "model.norm.weight", (N_EMBD,)
    if not case.config["tie_word_embeddings"]:
        yield "lm_head.weight", (N_VOCAB, N_EMBD)
    for number in range(case.size("num_hidden_layers")):
        layer = f"model.layers.{number}"
        yield f"{layer}.input_layernorm.weight", (N_EMBD,)
        yield f"{layer}.post_attention_layernorm.weight", (N_EMBD,)
        is_latent = case.architecture == "deepseek2"
        attention = _latent_shapes(case) if is_latent else _head_shapes(case)
        for name, shape in attention:
            yield f"{layer}.self_attn.{name}", shape
        feed_forward = _dense_shapes("", N_DENSE)
        if not case.is_dense(number):
            feed_forward = _expert_shapes(case)
        sparse = case.model_type in {"mixtral", "minimax_m2"}
        inner = "block_sparse_moe" if sparse else "mlp"
        for name, shape in feed_forward:
            yield f"{layer}.{inner}.{name}", shape


def _head_shapes(case: Case) -> Shapes:
    n_kv = case.size("num_key_value_heads") * case.head
    rows = {"q": N_HEADS * case.head, "k": n_kv, "v": n_kv}
    biased = case.config.get("attention_bias") or case.config.get("qkv_bias")
    for part, n in rows.items():
        yield f"{part}_proj.weight", (n, N_EMBD)
        if biased:
            yield f"{part}_proj.bias", (n,)
    yield "o_proj.weight", (N_EMBD, N_HEADS * case.head)
    if case.model_type == "gpt_oss":
        yield "o_proj.bias", (N_EMBD,)
        yield "sinks", (N_HEADS,)
    if case.model_type == "qwen3_moe":
        yield "q_norm.weight", (case.head,)
        yield "k_norm.weight", (case.head,)
    if case.model_type in {"olmoe", "minimax_m2"}:
        yield "q_norm.weight", (rows["q"],)
        yield "k_norm.weight", (rows["k"],)


def _latent_shapes(case: Case) -> Shapes:
    n_query, n_latent = case.size("q_lora_rank"), case.size("kv_lora_rank")
    n_nope, n_rope = case.size("qk_nope_head_dim"), case.size("qk_rope_head_dim")
    n_value = case.size("v_head_dim")
    n_heads = N_HEADS * (n_nope + n_rope)
    if n_query:
        yield "q_a_proj.weight", (n_query, N_EMBD)
        yield "q_a_layernorm.weight", (n_query,)
        yield "q_b_proj.weight", (n_heads, n_query)
    else:
        yield "q_proj.weight", (n_heads, N_EMBD)
    yield "kv_a_proj_with_mqa.weight", (n_latent + n_rope, N_EMBD)
    yield "kv_a_layernorm.weight", (n_latent,)
    yield "kv_b_proj.weight", (N_HEADS * (n_nope + n_value), n_latent)
    yield "o_proj.weight", (N_EMBD, N_HEADS * n_value)


def _dense_shapes(prefix: str, n_ff: int) -> Shapes:
    yield f"{prefix}gate_proj.weight", (n_ff, N_EMBD)
    yield f"{prefix}up_proj.weight", (n_ff, N_EMBD)
    yield f"{prefix}down_proj.weight", (N_EMBD, n_ff)


def _expert_shapes(case: Case) -> Shapes:
    if case.model_type == "gpt_oss":
        yield "router.weight", (N_EXPERT, N_EMBD)
        yield "router.bias", (N_EXPERT,)
        yield "experts.gate_up_proj", (N_EXPERT, N_EMBD, 2 * N_FF)
        yield "experts.gate_up_proj_bias", (N_EXPERT, 2 * N_FF)
        yield "experts.down_proj", (N_EXPERT, N_FF, N_EMBD)
        yield "experts.down_proj_bias", (N_EXPERT, N_EMBD)
        return
    yield "gate.weight", (N_EXPERT, N_EMBD)
    if case.model_type == "minimax_m2":
        yield "e_score_correction_bias", (N_EXPERT,)
    if case.model_type in {"deepseek_v3", "glm4_moe"}:
        yield "gate.e_score_correction_bias", (N_EXPERT,)
    for expert in range(N_EXPERT):
        if case.model_type in {"mixtral", "minimax_m2"}:
            yield f"experts.{expert}.w1.weight", (N_FF, N_EMBD)
            yield f"experts.{expert}.w2.weight", (N_EMBD, N_FF)
            yield f"experts.{expert}.w3.weight", (N_FF, N_EMBD)
        else:
            yield from _dense_shapes(f"experts.{expert}.", N_FF)
    if case.model_type == "qwen2_moe":
        yield from _dense_shapes("shared_expert.", 64)
        yield "shared_expert_gate.weight", (1, N_EMBD)
    n_shared = case.size("n_shared_experts")
    if n_shared:
        yield from _dense_shapes("shared_experts.", n_shared * N_FF)


def write_folder(case: Case, folder: Path) -> Path:
    """Write config.json and model.safetensors, as a publisher would; returns folder."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, values in weights_of(case).items():
        end = len(body) + values.nbytes
        header[name] = {
            "dtype": "F32",
            "shape": list(values.shape),
            "data_offsets": [len(body), end],
        }
        body += values.astype("<f4").tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(
        struct.pack("<Q", len(text)) + text + body
    )
    (folder / "config.json").write_text(json.dumps(case.config, indent=1))
    return folder
