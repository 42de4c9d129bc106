"""A MoE of any size in a GGUF file that both our loader and llama.cpp take.

A MiniMax-M3 scaled down: one dense layer, then layers of 32 experts (top 4) and a
shared one; every matrix in one block format, so that a rate is that format's. What
matters for speed is kept: more weights than any cache holds, few of them used by a
token, and tokens routed differently. The weights are `synthetic_blocks`, scaled such
that logits are finite and a layer adds little to the row, as in trained models.

llama.cpp asks for the block-sparse indexer, so it is there; its top-k covers the
context, so attention is dense. The tokenizer is the pocket model's, because llama.cpp
loads no file without one. Written tensor by tensor, some seconds for a GB.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

from mobile_worker.arithmetic.formats.block_format import Format
from tests.benchmarks.synthetic_blocks import BlockPool
from tests.benchmarks.synthetic_skew import skewed_bias

__all__ = ["POCKET", "SyntheticMoe", "write_moe"]

POCKET = Path(__file__).resolve().parents[2] / "p2pmoe/models/pocket-q4_0.gguf"
_ARCHITECTURE = "minimax-m3"
_N_VOCAB = 4096  # the pocket model's
_COPIED = ("ggml.model", "ggml.pre", "ggml.tokens", "ggml.token_type", "ggml.merges")


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticMoe:
    """Sizes of a file; the defaults make 1.3 GB of Q4_0 or Q4_K."""

    format: Format
    n_layer: int = 15  # the first is dense
    n_embd: int = 2048
    n_heads: int = 16
    n_kv_heads: int = 4
    head_dim: int = 128
    n_expert: int = 32
    top_k: int = 4
    n_ff: int = 768  # of an expert; the dense layer has top_k + 1 times as much
    n_context: int = 1024  # 8 blocks of the indexer, which picks 16
    index_dim: int = 64
    skew: float = 0.0  # s of the experts' use, 1 / rank^s; 0: all alike

    def matrices(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield name and shape of each matrix in the format, columns last."""
        n_embd, n_ff = self.n_embd, self.n_ff
        n_query, n_kv = (n * self.head_dim for n in (self.n_heads, self.n_kv_heads))
        yield "token_embd", (_N_VOCAB, n_embd)
        yield "output", (_N_VOCAB, n_embd)
        for layer in range(self.n_layer):
            block = f"blk.{layer}"
            yield f"{block}.attn_q", (n_query, n_embd)
            yield f"{block}.attn_k", (n_kv, n_embd)
            yield f"{block}.attn_v", (n_kv, n_embd)
            yield f"{block}.attn_output", (n_embd, n_query)
            if layer:
                index_query = self.n_kv_heads * self.index_dim
                yield f"{block}.indexer.q_proj", (index_query, n_embd)
                yield f"{block}.indexer.k_proj", (self.index_dim, n_embd)
            dense = n_ff * (self.top_k + 1)
            kinds = [("_shexp", (), n_ff), ("_exps", (self.n_expert,), n_ff)]
            for suffix, lead, width in kinds if layer else [("", (), dense)]:
                yield f"{block}.ffn_gate{suffix}", (*lead, width, n_embd)
                yield f"{block}.ffn_up{suffix}", (*lead, width, n_embd)
                yield f"{block}.ffn_down{suffix}", (*lead, n_embd, width)

    @property
    def n_bytes(self) -> int:
        """The matrices' bytes, which is nearly the file's size."""
        values, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(self.format)]
        return sum(int(np.prod(s)) * size // values for _, s in self.matrices())

    @property
    def active_weights(self) -> int:
        """Multiply-adds of one token: all matrices but the experts not chosen."""
        total = 0
        for name, shape in self.matrices():
            n_used = self.top_k if name.endswith("_exps") else 1
            n = int(np.prod(shape[-2:])) * n_used
            total += 0 if name == "token_embd" else n
        return total


def write_moe(path: Path, moe: SyntheticMoe) -> Path:
    """Write the file and return its path; OSError where the disk lacks the room."""
    free = shutil.disk_usage(path.parent).free
    if free < 2 * moe.n_bytes:
        raise OSError(
            f"{path.parent}: {free >> 20} MiB free, {moe.n_bytes >> 19} asked"
        )
    writer = gguf.GGUFWriter(path, _ARCHITECTURE)
    _add_metadata(writer, moe)
    kind = gguf.GGMLQuantizationType(moe.format)
    vectors = dict(_vectors(moe))
    matrices = {f"{name}.weight": shape for name, shape in moe.matrices()}
    for name, array in vectors.items():
        writer.add_tensor_info(name, array.shape, array.dtype, array.nbytes)
    for name, shape in matrices.items():
        packed = gguf.quant_shape_to_byte_shape(shape, kind)
        size = int(np.prod(packed))
        writer.add_tensor_info(name, packed, np.dtype(np.uint8), size, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for array in vectors.values():
        writer.write_tensor_data(array)
    pool = BlockPool(kind)
    for name, shape in matrices.items():
        writer.write_tensor_data(pool.matrix(shape, _gain(name, moe)))
    writer.close()
    return path


def _gain(name: str, moe: SyntheticMoe) -> float:
    """Return the standard deviation of a matrix's output for rows of unit variance.

    An embedding row has one of 1. What a layer adds is small beside it, as in trained
    models: where rounding decides between two experts, it moves the logits little.
    """
    if name.startswith("token_embd"):
        return float(np.sqrt(moe.n_embd))
    return 0.2 if "attn_output" in name or "ffn_down" in name else 1.0


def _add_metadata(writer: gguf.GGUFWriter, moe: SyntheticMoe) -> None:
    writer.add_context_length(moe.n_context)
    writer.add_embedding_length(moe.n_embd)
    writer.add_block_count(moe.n_layer)
    writer.add_feed_forward_length(moe.n_ff * (moe.top_k + 1))
    writer.add_head_count(moe.n_heads)
    writer.add_head_count_kv(moe.n_kv_heads)
    writer.add_key_length(moe.head_dim)
    writer.add_value_length(moe.head_dim)
    writer.add_rope_dimension_count(moe.head_dim // 2)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_expert_count(moe.n_expert)
    writer.add_expert_used_count(moe.top_k)
    writer.add_expert_feed_forward_length(moe.n_ff)
    writer.add_expert_shared_count(1)
    writer.add_expert_weights_scale(2.0)
    writer.add_expert_weights_norm(True)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_leading_dense_block_count(1)
    writer.add_vocab_size(_N_VOCAB)
    indexer = {
        "head_count": moe.n_kv_heads,
        "key_length": moe.index_dim,
        "top_k": 16,
        "block_size": 128,
        "local_blocks": 1,
    }
    for key, value in indexer.items():
        writer.add_uint32(f"{_ARCHITECTURE}.attention.indexer.{key}", value)
    pocket = gguf.GGUFReader(POCKET)
    for key in _COPIED:
        content = pocket.fields[f"tokenizer.{key}"].contents()
        add = writer.add_string if isinstance(content, str) else writer.add_array
        add(f"tokenizer.{key}", content)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)


def _vectors(moe: SyntheticMoe) -> Iterator[tuple[str, np.ndarray]]:
    """Norms near one, and routers, whose logits have unit variance."""
    rng = np.random.default_rng(1)

    def norm(n: int) -> np.ndarray:
        return rng.uniform(0.9, 1.1, n).astype(np.float32)

    yield "output_norm.weight", norm(moe.n_embd)
    for layer in range(moe.n_layer):
        block = f"blk.{layer}"
        yield f"{block}.attn_norm.weight", norm(moe.n_embd)
        yield f"{block}.ffn_norm.weight", norm(moe.n_embd)
        yield f"{block}.attn_q_norm.weight", norm(moe.head_dim)
        yield f"{block}.attn_k_norm.weight", norm(moe.head_dim)
        if layer:
            yield f"{block}.indexer.q_norm.weight", norm(moe.index_dim)
            yield f"{block}.indexer.k_norm.weight", norm(moe.index_dim)
            router = rng.standard_normal((moe.n_expert, moe.n_embd), np.float32)
            yield (
                f"{block}.ffn_gate_inp.weight",
                router / np.float32(np.sqrt(moe.n_embd)),
            )
            yield f"{block}.exp_probs_b.bias", _bias(moe, rng)


def _bias(moe: SyntheticMoe, rng: np.random.Generator) -> np.ndarray:
    if not moe.skew:
        return np.zeros(moe.n_expert, np.float32)
    return skewed_bias(moe.n_expert, moe.top_k, moe.skew, rng)
