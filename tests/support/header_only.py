"""Headers of models far too large to have: GGUF files that end where weights begin.

`python -m tests.support.header_only FOLDER` writes them; a minute of disk, some 200 kB
each. Shapes are those that the models' publishers give, and formats are a mix such as
the dynamic quantisations of hubs have, chosen so that the size comes out right:

minimax-m3: 60 layers, 3 of them dense, 128 experts a MoE layer, top-4, n_embd 6144,
expert FFN 3072, one shared expert; 64 heads of 128 with 4 KV heads, dense FFN 12288,
200,064 tokens, an indexer of 4 heads in the MoE layers. Gate and up of the experts
are IQ3_S, down IQ4_XS and in the first MoE layers Q5_K and Q4_K; the rest is Q8_0 and
F32.

kimi-k3: 93 layers, the first dense, 69 with linear attention (KDA), every fourth and
the last with MLA; 896 experts a MoE layer in a latent space of 3584, top-16, expert FFN
3072, two shared experts of 7168; dense FFN 33792, 96 heads of 128, 163,840 tokens. Gate
and down of the experts are IQ4_XS and up Q3_K, the rest is Q8_0 and F32. Names of
tensors and keys are those of llama.cpp's `kimi-k3`.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from mobile_worker.arithmetic.formats.block_format import Format, row_bytes
from tests.support.gguf_writer import TensorBytes, gguf_bytes

__all__ = [
    "KIMI_K3",
    "MINIMAX_M3",
    "write_header_only",
    "write_kimi_k3",
    "write_minimax_m3",
]

Entry = tuple[str, Format, tuple[int, ...]]
Q8, F32 = Format.Q8_0, Format.F32

MINIMAX_M3: dict[str, object] = {
    "general.architecture": "minimax-m3",
    "general.name": "MiniMax-M3",
    "minimax-m3.context_length": 196608,
    "minimax-m3.embedding_length": 6144,
    "minimax-m3.block_count": 60,
    "minimax-m3.feed_forward_length": 12288,
    "minimax-m3.attention.head_count": 64,
    "minimax-m3.attention.head_count_kv": 4,
    "minimax-m3.attention.key_length": 128,
    "minimax-m3.attention.value_length": 128,
    "minimax-m3.rope.dimension_count": 64,
    "minimax-m3.rope.freq_base": 5e6,
    "minimax-m3.attention.layer_norm_rms_epsilon": 1e-6,
    "minimax-m3.expert_count": 128,
    "minimax-m3.expert_used_count": 4,
    "minimax-m3.expert_feed_forward_length": 3072,
    "minimax-m3.expert_shared_count": 1,
    "minimax-m3.expert_weights_scale": 2.0,
    "minimax-m3.expert_weights_norm": True,
    "minimax-m3.expert_gating_func": 2,
    "minimax-m3.leading_dense_block_count": 3,
    "minimax-m3.vocab_size": 200064,
    "minimax-m3.attention.indexer.head_count": 4,
    "minimax-m3.attention.indexer.key_length": 128,
    "minimax-m3.attention.indexer.top_k": 16,
    "minimax-m3.attention.indexer.block_size": 128,
    "minimax-m3.attention.indexer.local_blocks": 1,
}
KIMI_K3: dict[str, object] = {
    "general.architecture": "kimi-k3",
    "general.name": "Kimi-K3",
    "kimi-k3.context_length": 1048576,
    "kimi-k3.embedding_length": 7168,
    "kimi-k3.block_count": 93,
    "kimi-k3.feed_forward_length": 33792,
    "kimi-k3.attention.head_count": 96,
    "kimi-k3.attention.head_count_kv": [int(n % 4 == 3 or n == 92) for n in range(93)],
    "kimi-k3.attention.q_lora_rank": 1536,
    "kimi-k3.attention.kv_lora_rank": 512,
    "kimi-k3.attention.key_length_mla": 192,
    "kimi-k3.attention.value_length_mla": 128,
    "kimi-k3.rope.dimension_count": 64,
    "kimi-k3.attention.layer_norm_rms_epsilon": 1e-5,
    "kimi-k3.ssm.conv_kernel": 4,
    "kimi-k3.kda.head_dim": 128,
    "kimi-k3.kda.gate_lower_bound": -5.0,
    "kimi-k3.attn_res.block_size": 12,
    "kimi-k3.activation.situ_beta": 4.0,
    "kimi-k3.activation.situ_linear_beta": 25.0,
    "kimi-k3.expert_count": 896,
    "kimi-k3.expert_used_count": 16,
    "kimi-k3.expert_shared_count": 2,
    "kimi-k3.expert_feed_forward_length": 3072,
    "kimi-k3.expert_latent_length": 3584,
    "kimi-k3.expert_gating_func": 2,
    "kimi-k3.expert_weights_norm": True,
    "kimi-k3.leading_dense_block_count": 1,
}


def write_header_only(
    path: Path, metadata: Mapping[str, object], entries: Iterator[Entry]
) -> Path:
    """Write a header whose tensors follow each other, and none of their bytes."""
    tensors: list[TensorBytes] = []
    at = 0
    for name, block_format, shape in entries:
        tensors.append(
            TensorBytes(
                name=name, type=int(block_format), shape=shape, content=b"", offset=at
            )
        )
        n_bytes = row_bytes(block_format, shape[-1])
        for n in shape[:-1]:
            n_bytes *= n
        at += -(-n_bytes // 32) * 32
    path.write_bytes(gguf_bytes(metadata, tensors))
    return path


def write_minimax_m3(path: Path) -> Path:
    """Write the header of MiniMax-M3 at UD-IQ4_XS, 207.6 GB."""
    return write_header_only(path, MINIMAX_M3, _minimax_m3())


def write_kimi_k3(path: Path) -> Path:
    """Write the header of a Kimi-K3 at 4 bits, 1.4 TB."""
    return write_header_only(path, KIMI_K3, _kimi_k3())


def _minimax_m3() -> Iterator[Entry]:
    yield "token_embd.weight", Q8, (200064, 6144)
    yield "output.weight", Q8, (200064, 6144)
    yield "output_norm.weight", F32, (6144,)
    for layer in range(60):
        block = f"blk.{layer}"
        yield f"{block}.attn_norm.weight", F32, (6144,)
        yield f"{block}.ffn_norm.weight", F32, (6144,)
        yield f"{block}.attn_q.weight", Q8, (8192, 6144)
        yield f"{block}.attn_k.weight", Q8, (512, 6144)
        yield f"{block}.attn_v.weight", Q8, (512, 6144)
        yield f"{block}.attn_output.weight", Q8, (6144, 8192)
        yield f"{block}.attn_q_norm.weight", F32, (128,)
        yield f"{block}.attn_k_norm.weight", F32, (128,)
        if layer < 3:
            yield from _feed_forward(block, "", 6144, 12288)
            continue
        yield f"{block}.ffn_gate_inp.weight", F32, (128, 6144)
        yield f"{block}.exp_probs_b.bias", F32, (128,)
        yield f"{block}.ffn_gate_exps.weight", Format.IQ3_S, (128, 3072, 6144)
        yield f"{block}.ffn_up_exps.weight", Format.IQ3_S, (128, 3072, 6144)
        yield f"{block}.ffn_down_exps.weight", _minimax_down(layer), (128, 6144, 3072)
        yield from _feed_forward(block, "_shexp", 6144, 3072)
        yield f"{block}.indexer.q_proj.weight", Q8, (512, 6144)
        yield f"{block}.indexer.k_proj.weight", Q8, (128, 6144)
        yield f"{block}.indexer.q_norm.weight", F32, (128,)
        yield f"{block}.indexer.k_norm.weight", F32, (128,)


def _minimax_down(layer: int) -> Format:
    if layer < 8:
        return Format.Q5_K
    return Format.Q4_K if layer < 11 else Format.IQ4_XS


def _feed_forward(block: str, suffix: str, n_embd: int, n_ff: int) -> Iterator[Entry]:
    yield f"{block}.ffn_gate{suffix}.weight", Q8, (n_ff, n_embd)
    yield f"{block}.ffn_up{suffix}.weight", Q8, (n_ff, n_embd)
    yield f"{block}.ffn_down{suffix}.weight", Q8, (n_embd, n_ff)


def _kimi_k3() -> Iterator[Entry]:
    yield "token_embd.weight", Q8, (163840, 7168)
    yield "output.weight", Q8, (163840, 7168)
    yield "output_norm.weight", F32, (7168,)
    yield "output_res_score.weight", F32, (7168,)
    for layer in range(93):
        block = f"blk.{layer}"
        for norm in ("attn_norm", "ffn_norm", "attn_res_score", "ffn_res_score"):
            yield f"{block}.{norm}.weight", F32, (7168,)
        is_mla = layer % 4 == 3 or layer == 92
        yield from _kimi_mla(block) if is_mla else _kimi_kda(block)
        if layer == 0:
            yield from _feed_forward(block, "", 7168, 33792)
            continue
        yield f"{block}.ffn_gate_inp.weight", F32, (896, 7168)
        yield f"{block}.exp_probs_b.bias", F32, (896,)
        yield f"{block}.ffn_routed_down.weight", Q8, (3584, 7168)
        yield f"{block}.ffn_routed_norm.weight", F32, (3584,)
        yield f"{block}.ffn_routed_up.weight", Q8, (7168, 3584)
        yield f"{block}.ffn_gate_exps.weight", Format.IQ4_XS, (896, 3072, 3584)
        yield f"{block}.ffn_up_exps.weight", Format.Q3_K, (896, 3072, 3584)
        yield f"{block}.ffn_down_exps.weight", Format.IQ4_XS, (896, 3584, 3072)
        yield from _feed_forward(block, "_shexp", 7168, 6144)


def _kimi_kda(block: str) -> Iterator[Entry]:
    for name in ("attn_q", "attn_k", "attn_v", "ssm_g"):
        yield f"{block}.{name}.weight", Q8, (12288, 7168)
    for name in ("q", "k", "v"):
        yield f"{block}.ssm_conv1d_{name}.weight", F32, (12288, 1, 4)
    yield f"{block}.ssm_f_a.weight", Q8, (128, 7168)
    yield f"{block}.ssm_f_b.weight", Q8, (12288, 128)
    yield f"{block}.ssm_beta.weight", Q8, (96, 7168)
    yield f"{block}.ssm_a", F32, (96,)
    yield f"{block}.ssm_dt.bias", F32, (12288,)
    yield f"{block}.ssm_norm.weight", F32, (128,)
    yield f"{block}.attn_output.weight", Q8, (7168, 12288)


def _kimi_mla(block: str) -> Iterator[Entry]:
    yield f"{block}.attn_q_a.weight", Q8, (1536, 7168)
    yield f"{block}.attn_q_a_norm.weight", F32, (1536,)
    yield f"{block}.attn_q_b.weight", Q8, (96 * 192, 1536)
    yield f"{block}.attn_kv_a_mqa.weight", Q8, (576, 7168)
    yield f"{block}.attn_kv_a_norm.weight", F32, (512,)
    yield f"{block}.attn_k_b.weight", Q8, (96, 512, 128)
    yield f"{block}.attn_v_b.weight", Q8, (96, 128, 512)
    yield f"{block}.attn_gate.weight", Q8, (12288, 7168)
    yield f"{block}.attn_output.weight", Q8, (7168, 12288)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    print(write_minimax_m3(folder / "minimax-m3-ud-iq4_xs.gguf"))
    print(write_kimi_k3(folder / "kimi-k3-4-bits.gguf"))
