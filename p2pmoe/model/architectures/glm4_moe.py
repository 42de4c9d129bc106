"""GLM-4-MoE: GQA, leading dense layers, sigmoid-routed experts and a shared one.

Per layer, with pre-norm and plain residuals:

    x = x + Wo attend(rope(norm_q(Wq a + bq)), rope(norm_k(Wk a + bk)), Wv a + bv),
        a = norm(x)
    x = x + experts(f) + shared(f),  f = norm(x), or dense(f) in the leading layers

swiglu throughout. The feed-forward's norm is called post_attention_norm. QK norm, of
each head by itself, and biases are there or not: one size of the model has norms,
another biases, or both. Rotary on the first values of each head (half of them in all
published models), in halves. Next-token blocks are ignored.

The router: sigmoid unless the file names a softmax, a selection bias, groups, the
chosen divided by their sum unless the file says no (true in all published models), the
routed scale 1 if absent. One shared expert unless expert_shared_count is 0.
"""

from typing import Final

from mobile_worker.arithmetic.kernel import Kernel
from p2pmoe.model.attention_layer import AttentionLayer
from p2pmoe.model.choice import RouterSettings, ScoreFunction
from p2pmoe.model.decoder import Decoder, DecoderLayer, load_decoder
from p2pmoe.model.description import ModelDescription
from p2pmoe.model.layer_reader import LayerReader
from p2pmoe.model.linear import FeedForward
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

ARCHITECTURE: Final = "glm4moe"


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
    has_shared = keys.size("expert_shared_count", 1, low=0) > 0

    def layer(reader: LayerReader) -> DecoderLayer:
        own_router = reader.router(router)
        return DecoderLayer(
            attn_norm=reader.norm("attn_norm"),
            attention=_attention(reader, heads, rope),
            ffn_norm=reader.norm("post_attention_norm"),
            router=own_router,
            feed_forward=_feed_forward(reader, own_router, has_shared),
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
        qk_norm=reader.head_norm(heads) if reader.has("attn_q_norm") else None,
    )


def _router(keys: Keys) -> RouterSettings:
    functions = (ScoreFunction.SIGMOID, ScoreFunction.SOFTMAX)
    return read_router(keys, functions=functions, norm=True)


def _feed_forward(
    reader: LayerReader, router: Router | None, has_shared: bool
) -> FeedForward | None:
    if router is None:
        return reader.dense()
    return reader.shared_expert() if has_shared else None
