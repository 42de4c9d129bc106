"""MiniMax-M3: GQA with per-head QK norm, block-sparse layers, sigmoid-routed experts.

Per layer, with pre-norm and plain residuals:

    x = x + Wo attend(rope(norm_q(Wq a)), rope(norm_k(Wk a)), Wv a),  a = norm(x)
    x = x + feed-forward(norm(x))

The feed-forward is dense in the leading layers, else routed experts plus one shared
expert; swiglu_oai throughout. Rotary on the first values of each head, in halves. A
layer with indexer tensors is block-sparse (`block_selection`); the indexer reads the
same normed input, has its own norms, and turns its heads the same way. The norms'
weights are used as the file has them: the converter has already added 1.

The router: sigmoid, a selection bias, weights divided by their sum unless the file says
no, the routed scale always in the file. Constants that the file does not carry,
swiglu_oai's alpha and limit, are those of `weights.names`.
"""

import dataclasses
from typing import Final

from mobile_worker.arithmetic.kernel import Kernel
from p2pmoe.model.attention_layer import AttentionLayer
from p2pmoe.model.block_selection import BlockSelection
from p2pmoe.model.choice import RouterSettings, ScoreFunction
from p2pmoe.model.decoder import Decoder, DecoderLayer, load_decoder
from p2pmoe.model.description import ModelDescription
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.indexer import Indexer
from p2pmoe.model.layer_reader import LayerReader
from p2pmoe.model.metadata_keys import Keys
from p2pmoe.model.rope import Rope
from p2pmoe.model.rope_settings import read_rope
from p2pmoe.model.row_operations import RowOperations
from p2pmoe.model.settings import (
    HeadSettings,
    read_description,
    read_heads,
    read_router,
)
from p2pmoe.weights.model_file import ModelFile
from p2pmoe.weights.model_header import ModelHeader

__all__ = ["ARCHITECTURE", "describe", "load"]

ARCHITECTURE: Final = "minimax-m3"

_INDEX_QUERY: Final = "indexer.q_proj"


def describe(header: ModelHeader) -> ModelDescription:
    """Read the sizes; raises as `read_description`."""
    keys = Keys(header)
    per_layer = read_heads(keys).kv_bytes_per_token
    own = read_description(keys, kv_bytes_per_layer=per_layer)
    n_indexed = sum(
        f"blk.{number}.{_INDEX_QUERY}.weight" in header.tensors
        for number in range(own.n_layer)
    )
    index_bytes = n_indexed * _index_dim(keys) * 4
    return dataclasses.replace(
        own, kv_bytes_per_token=own.kv_bytes_per_token + index_bytes
    )


def load(model_file: ModelFile, kernel: Kernel, operations: RowOperations) -> Decoder:
    """Read everything but the routed experts; raises as `load_decoder`."""
    keys = Keys(model_file)
    heads, router = read_heads(keys), _router(keys)
    n_rotated = keys.rotated(heads.head_dim)
    rope = Rope(read_rope(model_file, n_rotated=n_rotated, interleaved=False))

    def layer(reader: LayerReader) -> DecoderLayer:
        own_router = reader.router(router)
        return DecoderLayer(
            attn_norm=reader.norm("attn_norm"),
            attention=_attention(reader, heads, rope, keys),
            ffn_norm=reader.norm("ffn_norm"),
            router=own_router,
            feed_forward=reader.shared_expert() if own_router else reader.dense(),
        )

    return load_decoder(model_file, kernel, operations, describe(model_file), layer)


def _attention(
    reader: LayerReader, heads: HeadSettings, rope: Rope, keys: Keys
) -> AttentionLayer:
    return AttentionLayer(
        heads=heads,
        qkv=reader.qkv(heads),
        output=reader.attention_output(heads),
        rope=rope,
        rule=heads.rule,
        operations=reader.operations,
        qk_norm=reader.head_norm(heads),
        indexer=_indexer(reader, heads, rope, keys),
    )


def _router(keys: Keys) -> RouterSettings:
    functions = (ScoreFunction.SIGMOID, ScoreFunction.SOFTMAX)
    return read_router(keys, functions=functions, norm=True, scale=None)


def _indexer(
    reader: LayerReader, heads: HeadSettings, rope: Rope, keys: Keys
) -> Indexer | None:
    if not reader.has(_INDEX_QUERY):
        return None
    index_dim = _index_dim(keys)
    n_heads = keys.size("attention.indexer.head_count", 1)
    n_rotated = keys.size("rope.dimension_count")
    if n_heads != heads.n_kv_heads or index_dim < n_rotated:
        raise ModelRefused(
            f"{n_heads} index heads of {index_dim} values for {heads.n_kv_heads} KV "
            f"heads with {n_rotated} turned"
        )
    return Indexer(
        query=reader.linear({_INDEX_QUERY: n_heads * index_dim}, reader.n_embd),
        query_norm=reader.norm("indexer.q_norm", index_dim),
        key=reader.linear({"indexer.k_proj": index_dim}, reader.n_embd),
        key_norm=reader.norm("indexer.k_norm", index_dim),
        selection=BlockSelection(
            top_k=keys.size("attention.indexer.top_k", 1),
            block_size=keys.size("attention.indexer.block_size", 1),
            n_local=keys.size("attention.indexer.local_blocks", 1),
        ),
        rope=rope,
        eps=reader.eps,
        operations=reader.operations,
    )


def _index_dim(keys: Keys) -> int:
    index_dim = keys.size("attention.indexer.key_length", 8)
    if index_dim % 8:
        raise ModelRefused(f"index heads of {index_dim} values, no multiple of 8")
    return index_dim
