"""MiniMax-M2: GQA with QK norm over all heads, sigmoid-routed experts, nothing beside.

Per layer, with pre-norm and plain residuals:

    x = x + Wo attend(rope(norm_q(Wq a)), rope(norm_k(Wk a)), Wv a),  a = norm(x)
    x = x + experts(norm(x))

swiglu throughout; every layer has experts. The norms take all heads as one row. Rotary
on the first values of each head, in halves.

The router: sigmoid, a selection bias, the chosen divided by their sum. The file says
which score function; a softmax is taken, too. Next-token blocks are ignored.
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

ARCHITECTURE: Final = "minimax-m2"


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
        return DecoderLayer(
            attn_norm=reader.norm("attn_norm"),
            attention=_attention(reader, heads, rope),
            ffn_norm=reader.norm("ffn_norm"),
            router=reader.router(router),
            feed_forward=None,
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
        qk_norm=reader.row_norm(heads),
    )


def _router(keys: Keys) -> RouterSettings:
    functions = (ScoreFunction.SIGMOID, ScoreFunction.SOFTMAX)
    return read_router(keys, functions=functions, norm=True)
