"""A made-up MiniMax-M3 of 2 layers, written as a GGUF file, to bend at any place.

Layer 0 is dense, layer 1 has 4 experts (top 2), a shared expert and an indexer that
picks 2 blocks of 8 positions. Matrices are Q8_0, vectors F32.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from mobile_worker.arithmetic.formats.block_format import Format
from tests.support.gguf_writer import TensorBytes, write_gguf
from tests.support.mini_models import matrix, vector

__all__ = ["MINI_METADATA", "mini_tensors", "write_mini_m3"]

N_EMBD, N_FF, N_VOCAB, N_EXPERT, HEAD = 64, 32, 96, 4, 32

MINI_METADATA: dict[str, object] = {
    "general.architecture": "minimax-m3",
    "minimax-m3.context_length": 128,
    "minimax-m3.embedding_length": N_EMBD,
    "minimax-m3.block_count": 2,
    "minimax-m3.feed_forward_length": N_FF,
    "minimax-m3.attention.head_count": 4,
    "minimax-m3.attention.head_count_kv": 2,
    "minimax-m3.attention.key_length": HEAD,
    "minimax-m3.attention.value_length": HEAD,
    "minimax-m3.rope.dimension_count": 16,
    "minimax-m3.rope.freq_base": 10000.0,
    "minimax-m3.attention.layer_norm_rms_epsilon": 1e-6,
    "minimax-m3.expert_count": N_EXPERT,
    "minimax-m3.expert_used_count": 2,
    "minimax-m3.expert_feed_forward_length": N_FF,
    "minimax-m3.expert_weights_scale": 2.0,
    "minimax-m3.expert_weights_norm": True,
    "minimax-m3.expert_gating_func": 2,
    "minimax-m3.leading_dense_block_count": 1,
    "minimax-m3.attention.indexer.head_count": 2,
    "minimax-m3.attention.indexer.key_length": HEAD,
    "minimax-m3.attention.indexer.top_k": 2,
    "minimax-m3.attention.indexer.block_size": 8,
    "minimax-m3.attention.indexer.local_blocks": 1,
}


def mini_tensors(n_vocab: int = N_VOCAB) -> dict[str, TensorBytes]:
    """Return all tensors by name."""
    tensors = [
        matrix("token_embd.weight", n_vocab, N_EMBD),
        matrix("output.weight", n_vocab, N_EMBD),
        vector("output_norm.weight", N_EMBD),
    ]
    for layer in (0, 1):
        block = f"blk.{layer}"
        suffix = "_shexp" if layer else ""
        tensors += [
            vector(f"{block}.attn_norm.weight", N_EMBD),
            vector(f"{block}.ffn_norm.weight", N_EMBD),
            vector(f"{block}.attn_q_norm.weight", HEAD),
            vector(f"{block}.attn_k_norm.weight", HEAD),
            matrix(f"{block}.attn_q.weight", 4 * HEAD, N_EMBD),
            matrix(f"{block}.attn_k.weight", 2 * HEAD, N_EMBD),
            matrix(f"{block}.attn_v.weight", 2 * HEAD, N_EMBD),
            matrix(f"{block}.attn_output.weight", N_EMBD, 4 * HEAD),
            matrix(f"{block}.ffn_gate{suffix}.weight", N_FF, N_EMBD),
            matrix(f"{block}.ffn_up{suffix}.weight", N_FF, N_EMBD),
            matrix(f"{block}.ffn_down{suffix}.weight", N_EMBD, N_FF),
        ]
    tensors += [
        matrix("blk.1.ffn_gate_inp.weight", N_EXPERT, N_EMBD, block_format=Format.F32),
        vector("blk.1.exp_probs_b.bias", N_EXPERT, 0.0),
        matrix("blk.1.ffn_gate_exps.weight", N_EXPERT, N_FF, N_EMBD),
        matrix("blk.1.ffn_up_exps.weight", N_EXPERT, N_FF, N_EMBD),
        matrix("blk.1.ffn_down_exps.weight", N_EXPERT, N_EMBD, N_FF),
        matrix(
            "blk.1.indexer.q_proj.weight", 2 * HEAD, N_EMBD, block_format=Format.F32
        ),
        matrix("blk.1.indexer.k_proj.weight", HEAD, N_EMBD, block_format=Format.F32),
        vector("blk.1.indexer.q_norm.weight", HEAD),
        vector("blk.1.indexer.k_norm.weight", HEAD),
    ]
    return {tensor.name: tensor for tensor in tensors}


def write_mini_m3(
    path: Path,
    metadata: Mapping[str, object | None] | None = None,
    tensors: Mapping[str, bytes | None] | None = None,
    *,
    n_vocab: int = N_VOCAB,
) -> Path:
    """Write the model; `None` drops a key or tensor, other values replace it."""
    keys = {**MINI_METADATA, **(metadata or {})}
    own = mini_tensors(n_vocab)
    for name, content in (tensors or {}).items():
        if content is None:
            del own[name]
        else:
            own[name] = dataclasses.replace(own[name], content=content)
    kept = {key: value for key, value in keys.items() if value is not None}
    write_gguf(path, kept, list(own.values()))
    return path
