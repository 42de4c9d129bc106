"""Made-up models of two layers for every architecture, to bend at any place.

Each has width 64, 4 heads of 32 values over 2 KV heads, 4 experts (top 2) of 32 values
and 96 tokens. Matrices are Q8_0, vectors F32. `write_mini(path, "qwen3moe", ...)`
replaces or drops keys (without their prefix) and tensors.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows
from tests.support.gguf_writer import TensorBytes, write_gguf

__all__ = [
    "MINI_ARCHITECTURES",
    "matrix",
    "mini_metadata",
    "mini_tensors",
    "vector",
    "write_mini",
]

N_EMBD, N_FF, N_VOCAB, N_EXPERT, HEAD, N_HEADS, N_KV = 64, 32, 96, 4, 32, 4, 2

_COMMON: dict[str, object] = {
    "context_length": 128,
    "embedding_length": N_EMBD,
    "block_count": 2,
    "feed_forward_length": N_FF,
    "attention.head_count": N_HEADS,
    "attention.head_count_kv": N_KV,
    "attention.key_length": HEAD,
    "attention.value_length": HEAD,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.freq_base": 10000.0,
    "expert_count": N_EXPERT,
    "expert_used_count": 2,
    "expert_feed_forward_length": N_FF,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """What an architecture has beside the common."""

    keys: Mapping[str, object] = dataclasses.field(default_factory=dict)
    dense_layers: int = 0
    q_norm: int | None = None  # its length
    k_norm: int | None = None
    biased: tuple[str, ...] = ()
    ffn_norm: str = "ffn_norm"
    vectors: Mapping[str, int] = dataclasses.field(default_factory=dict)
    moe_vectors: Mapping[str, int] = dataclasses.field(default_factory=dict)
    shared: bool = False
    expert_biases: bool = False


_QKV = ("attn_q", "attn_k", "attn_v")
_ROW_NORMS = {"q_norm": N_HEADS * HEAD, "k_norm": N_KV * HEAD}
_HEAD_NORMS = {"q_norm": HEAD, "k_norm": HEAD}

_KINDS = {
    "glm4moe": Kind(
        keys={
            "leading_dense_block_count": 1,
            "rope.dimension_count": 16,
            "expert_gating_func": 2,
            "expert_weights_norm": True,
            "expert_weights_scale": 1.5,
            "expert_shared_count": 1,
        },
        dense_layers=1,
        **_HEAD_NORMS,
        biased=_QKV,
        ffn_norm="post_attention_norm",
        moe_vectors={"exp_probs_b.bias": N_EXPERT},
        shared=True,
    ),
    "gpt-oss": Kind(
        keys={"attention.sliding_window": 5},
        biased=(*_QKV, "attn_output", "ffn_gate_inp"),
        ffn_norm="post_attention_norm",
        vectors={"attn_sinks.weight": N_HEADS},
        expert_biases=True,
    ),
    "llama": Kind(keys={"rope.dimension_count": HEAD}),
    "minimax-m2": Kind(
        keys={"rope.dimension_count": 16, "expert_gating_func": 2},
        **_ROW_NORMS,
        moe_vectors={"exp_probs_b.bias": N_EXPERT},
    ),
    "olmoe": Kind(**_ROW_NORMS),
    "qwen2moe": Kind(
        biased=_QKV, shared=True, moe_vectors={"ffn_gate_inp_shexp.weight": N_EMBD}
    ),
    "qwen3moe": Kind(**_HEAD_NORMS),
}
MINI_ARCHITECTURES = tuple(_KINDS)


def vector(name: str, n: int, value: float = 1.0) -> TensorBytes:
    near = np.float32(value) + fixed_rows(name, 1, n)[0] / np.float32(64)
    return TensorBytes(
        name=name, type=0, shape=(n,), content=near.astype("<f4").tobytes()
    )


def matrix(name: str, *shape: int, block_format: Format = Format.Q8_0) -> TensorBytes:
    n_rows = int(np.prod(shape[:-1]))
    raw = bytes(fixed_matrix(name, block_format, n_rows, shape[-1]).raw)
    return TensorBytes(name=name, type=int(block_format), shape=shape, content=raw)


def mini_metadata(architecture: str) -> dict[str, object]:
    """Return all keys, with their prefix."""
    keys = {**_COMMON, **_KINDS[architecture].keys}
    own = {f"{architecture}.{key}": value for key, value in keys.items()}
    return {"general.architecture": architecture, **own}


def mini_tensors(architecture: str) -> dict[str, TensorBytes]:
    """Return all tensors by name."""
    kind = _KINDS[architecture]
    tensors = [
        matrix("token_embd.weight", N_VOCAB, N_EMBD),
        matrix("output.weight", N_VOCAB, N_EMBD),
        vector("output_norm.weight", N_EMBD),
    ]
    for layer in (0, 1):
        block = f"blk.{layer}."
        tensors += _attention(kind, block)
        tensors += _feed_forward(kind, block, is_dense=layer < kind.dense_layers)
    return {tensor.name: tensor for tensor in tensors}


def _attention(kind: Kind, block: str) -> Iterator[TensorBytes]:
    rows = {"attn_q": N_HEADS * HEAD, "attn_k": N_KV * HEAD, "attn_v": N_KV * HEAD}
    yield vector(f"{block}attn_norm.weight", N_EMBD)
    for part, n_rows in rows.items():
        yield matrix(f"{block}{part}.weight", n_rows, N_EMBD)
    yield matrix(f"{block}attn_output.weight", N_EMBD, N_HEADS * HEAD)
    for part, n_rows in {**rows, "attn_output": N_EMBD}.items():
        if part in kind.biased:
            yield vector(f"{block}{part}.bias", n_rows, 0.0)
    if kind.q_norm is not None and kind.k_norm is not None:
        yield vector(f"{block}attn_q_norm.weight", kind.q_norm)
        yield vector(f"{block}attn_k_norm.weight", kind.k_norm)
    for part, n in kind.vectors.items():
        yield vector(block + part, n, 0.5)


def _feed_forward(kind: Kind, block: str, *, is_dense: bool) -> Iterator[TensorBytes]:
    yield vector(f"{block}{kind.ffn_norm}.weight", N_EMBD)
    suffixes = [""] if is_dense else ["_shexp"] if kind.shared else []
    for suffix in suffixes:
        yield matrix(f"{block}ffn_gate{suffix}.weight", N_FF, N_EMBD)
        yield matrix(f"{block}ffn_up{suffix}.weight", N_FF, N_EMBD)
        yield matrix(f"{block}ffn_down{suffix}.weight", N_EMBD, N_FF)
    if is_dense:
        return
    name = f"{block}ffn_gate_inp.weight"
    yield matrix(name, N_EXPERT, N_EMBD, block_format=Format.F32)
    if "ffn_gate_inp" in kind.biased:
        yield vector(f"{block}ffn_gate_inp.bias", N_EXPERT, 0.0)
    for part, n in kind.moe_vectors.items():
        yield vector(block + part, n, 0.0)
    shapes = {"gate": (N_FF, N_EMBD), "up": (N_FF, N_EMBD), "down": (N_EMBD, N_FF)}
    for part, shape in shapes.items():
        yield matrix(f"{block}ffn_{part}_exps.weight", N_EXPERT, *shape)
        if kind.expert_biases:
            bias = vector(f"{block}ffn_{part}_exps.bias", N_EXPERT * shape[0], 0.0)
            yield dataclasses.replace(bias, shape=(N_EXPERT, shape[0]))


def write_mini(
    path: Path,
    architecture: str,
    keys: Mapping[str, object | None] | None = None,
    tensors: Mapping[str, TensorBytes | bytes | None] | None = None,
) -> Path:
    """Write a model; `None` drops a key or tensor, others replace it or are added."""
    metadata = mini_metadata(architecture)
    metadata |= {f"{architecture}.{key}": value for key, value in (keys or {}).items()}
    own = mini_tensors(architecture)
    for name, content in (tensors or {}).items():
        if content is None:
            del own[name]
        elif isinstance(content, bytes):
            own[name] = dataclasses.replace(own[name], content=content)
        else:
            own[name] = content
    kept = {key: value for key, value in metadata.items() if value is not None}
    return write_gguf(path, kept, list(own.values()))
