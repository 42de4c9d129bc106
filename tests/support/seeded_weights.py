"""The weights of `seeded_models`, in their publishers' names and shapes.

Each tensor comes of a generator seeded by its name.
"""

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.support.seeded_models import (
    N_DENSE,
    N_EMBD,
    N_EXPERT,
    N_FF,
    N_HEADS,
    N_VOCAB,
    Case,
)

__all__ = ["weights_of", "write_folder"]


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
