"""gpt-oss: GQA with sinks and biases, every other layer in a window, biased experts.

Per layer, with pre-norm and plain residuals:

    x = x + Wo attend(rope(Wq a + bq), rope(Wk a + bk), Wv a + bv) + bo,  a = norm(x)
    x = x + experts(norm(x))

swiglu_oai throughout; every layer has experts, and each expert three biases. The
feed-forward's norm is called post_attention_norm. Each head has a sink: one more logit
in its softmax that takes weight and adds no value. Rotary over whole heads, in halves;
YaRN's ramp begins and ends between pairs (the publisher's truncate = false).

Layers 0, 2, 4, ... see `attention.sliding_window` positions, their own included, the
others all. A file may say otherwise in `attention.sliding_window_pattern`: a period
(the last layer of each is full) or a flag for each layer.

The router: logits with a bias, the best chosen, softmax of the chosen. Files do not
carry expert_gating_func; this is the one they mean.
"""

from dataclasses import replace
from typing import Final

from mobile_worker.arithmetic.kernel import Kernel
from p2pmoe.model.attention_layer import AttentionLayer
from p2pmoe.model.choice import RouterSettings, ScoreFunction
from p2pmoe.model.decoder import Decoder, DecoderLayer, load_decoder
from p2pmoe.model.description import ModelDescription
from p2pmoe.model.layer_reader import LayerReader
from p2pmoe.model.metadata_keys import MAX_CONTEXT, Keys
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

ARCHITECTURE: Final = "gpt-oss"

_WINDOW: Final = "attention.sliding_window"
_PATTERN: Final = "attention.sliding_window_pattern"


def describe(header: ModelHeader) -> ModelDescription:
    """Read the sizes; raises as `read_description`."""
    keys = Keys(header)
    return read_description(
        keys,
        kv_bytes_per_layer=read_heads(keys).kv_bytes_per_token,
        computed=(_WINDOW,),
    )


def load(model_file: ModelFile, kernel: Kernel, operations: RowOperations) -> Decoder:
    """Read everything but the routed experts; raises as `load_decoder`."""
    description, keys = describe(model_file), Keys(model_file)
    heads, router = read_heads(keys), _router(keys)
    n_rotated = keys.rotated(heads.head_dim)
    rope = Rope(
        read_rope(model_file, n_rotated=n_rotated, interleaved=False, truncate=False)
    )
    windows = _windows(keys, description.n_layer)

    def layer(reader: LayerReader) -> DecoderLayer:
        window = windows[reader.number]
        return DecoderLayer(
            attn_norm=reader.norm("attn_norm"),
            attention=_attention(reader, heads, rope, window),
            ffn_norm=reader.norm("post_attention_norm"),
            router=reader.router(router, biased=True),
            feed_forward=None,
        )

    return load_decoder(model_file, kernel, operations, description, layer)


def _attention(
    reader: LayerReader, heads: HeadSettings, rope: Rope, window: int | None
) -> AttentionLayer:
    sinks = reader.vector("attn_sinks", heads.n_heads)
    sinks = sinks.reshape(heads.n_kv_heads, -1)
    return AttentionLayer(
        heads=heads,
        qkv=reader.qkv(heads, biased=True),
        output=reader.attention_output(heads, biased=True),
        rope=rope,
        rule=replace(heads.rule, window=window, sinks=sinks),
        operations=reader.operations,
    )


def _router(keys: Keys) -> RouterSettings:
    functions = (ScoreFunction.SOFTMAX_OF_CHOSEN,)
    return read_router(keys, functions=functions, norm=False)


def _windows(keys: Keys, n_layer: int) -> tuple[int | None, ...]:
    """Return how many positions each layer sees, None for all."""
    window = keys.size(_WINDOW, high=MAX_CONTEXT)
    return tuple(
        window if is_windowed else None
        for is_windowed in keys.pattern(_PATTERN, n_layer, default=2)
    )
