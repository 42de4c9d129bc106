"""Qwen3-MoE: GQA with per-head QK norm, softmax-routed experts, nothing beside them.

Per layer, with pre-norm and plain residuals:

    x = x + Wo attend(rope(norm_q(Wq a)), rope(norm_k(Wk a)), Wv a),  a = norm(x)
    x = x + experts(norm(x)), in some layers a dense feed-forward

swiglu throughout; rotary over whole heads, in halves. A layer without a router is dense
(the publisher's decoder_sparse_step and mlp_only_layers).

The router: softmax of all, the chosen divided by their sum unless the file says no:
files do not carry the publisher's norm_topk_prob, which is true in every published
model. Layers have no sliding window; a file that has one is refused.
"""

from typing import Final

from mobile_worker.arithmetic.kernel import Kernel
from p2pmoe.model.attention_layer import AttentionLayer
from p2pmoe.model.choice import RouterSettings, ScoreFunction
from p2pmoe.model.decoder import Decoder, DecoderLayer, load_decoder
from p2pmoe.model.description import ModelDescription
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

ARCHITECTURE: Final = "qwen3moe"


def describe(header: ModelHeader) -> ModelDescription:
    """Read the sizes; raises as `read_description`."""
    keys = Keys(header)
    return read_description(
        keys, kv_bytes_per_layer=read_heads(keys).kv_bytes_per_token
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
            attention=_attention(reader, heads, rope),
            ffn_norm=reader.norm("ffn_norm"),
            router=own_router,
            feed_forward=None if own_router else reader.dense(),
        )

    return load_decoder(model_file, kernel, operations, describe(model_file), layer)


def _attention(reader: LayerReader, heads: HeadSettings, rope: Rope) -> AttentionLayer:
    return AttentionLayer(
        heads=heads,
        qkv=reader.qkv(heads),
        output=reader.attention_output(heads),
        rope=rope,
        rule=heads.rule,
        operations=reader.operations,
        qk_norm=reader.head_norm(heads),
    )


def _router(keys: Keys) -> RouterSettings:
    return read_router(keys, functions=(ScoreFunction.SOFTMAX,), norm=True)
