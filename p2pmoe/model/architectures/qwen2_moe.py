"""Qwen2-MoE: GQA with biases, softmax-routed experts and a shared one behind a gate.

Per layer, with pre-norm and plain residuals:

    x = x + Wo attend(rope(Wq a + bq), rope(Wk a + bk), Wv a + bv),  a = norm(x)
    x = x + experts(f) + sigmoid(w f) shared(f),  f = norm(x), or dense(f)

swiglu throughout; rotary over whole heads, in halves. A layer without a router is dense
(the publisher's decoder_sparse_step and mlp_only_layers). Biases of queries, keys and
values are there or not (qkv_bias). Heads have embedding_length / head_count values.

The router: softmax of all, the chosen as they are unless the file says otherwise: files
do not carry the publisher's norm_topk_prob, which is false in every published model.
Files written before expert_feed_forward_length was have experts of
feed_forward_length / expert_used_count. Layers have no sliding window; a file that has
one is refused.
"""

from typing import Final

from mobile_worker.arithmetic.kernel import Kernel
from p2pmoe.model.attention_layer import AttentionLayer
from p2pmoe.model.choice import RouterSettings, ScoreFunction
from p2pmoe.model.decoder import Decoder, DecoderLayer, load_decoder
from p2pmoe.model.description import ModelDescription
from p2pmoe.model.layer_reader import LayerReader
from p2pmoe.model.linear import FeedForward, GatedFeedForward
from p2pmoe.model.metadata_keys import Keys
from p2pmoe.model.rope import Rope
from p2pmoe.model.rope_settings import read_rope
from p2pmoe.model.router import Router
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

ARCHITECTURE: Final = "qwen2moe"


def describe(header: ModelHeader) -> ModelDescription:
    """Read the sizes; raises as `read_description`."""
    keys = Keys(header)
    n_ff_expert = None
    if keys.has("feed_forward_length"):
        n_ff_expert = keys.size("feed_forward_length") // keys.size("expert_used_count")
    return read_description(
        keys,
        kv_bytes_per_layer=read_heads(keys).kv_bytes_per_token,
        n_ff_expert=n_ff_expert,
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
            feed_forward=_feed_forward(reader, own_router),
        )

    return load_decoder(model_file, kernel, operations, describe(model_file), layer)


def _attention(reader: LayerReader, heads: HeadSettings, rope: Rope) -> AttentionLayer:
    return AttentionLayer(
        heads=heads,
        qkv=reader.qkv(heads, biased=reader.has("attn_q", "bias")),
        output=reader.attention_output(heads),
        rope=rope,
        rule=heads.rule,
        operations=reader.operations,
    )


def _router(keys: Keys) -> RouterSettings:
    return read_router(keys, functions=(ScoreFunction.SOFTMAX,), norm=False)


def _feed_forward(
    reader: LayerReader, router: Router | None
) -> FeedForward | GatedFeedForward:
    return reader.dense() if router is None else reader.gated_shared_expert()
