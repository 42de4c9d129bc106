"""Mixtral: GQA without norms, softmax-routed experts, nothing beside them.

Per layer, with pre-norm and plain residuals:

    x = x + Wo attend(rope(Wq a), rope(Wk a), Wv a),  a = norm(x)
    x = x + experts(norm(x))

swiglu throughout; every layer has experts. GGUF calls it `llama`, like the dense models
of that family, which are refused here. Rotary over whole heads, of neighbours: GGUF's
converter has reordered the rows of Wq and Wk so that the publisher's halves lie side by
side. Biases are there or not. A sliding window, where the file has one, is every
layer's (the publisher's `sliding_window`, null in the published models).

The router: softmax of all, the chosen divided by their sum. Experts are of
feed_forward_length; the file has no key of their own for it.
"""

from dataclasses import replace
from typing import Final

from mobile_worker.arithmetic.kernel import Kernel
from p2pmoe.model.attention_layer import AttentionLayer
from p2pmoe.model.choice import RouterSettings, ScoreFunction
from p2pmoe.model.decoder import Decoder, DecoderLayer, load_decoder
from p2pmoe.model.description import ModelDescription
from p2pmoe.model.errors import ModelRefused
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

ARCHITECTURE: Final = "llama"

_WINDOW: Final = "attention.sliding_window"


def describe(header: ModelHeader) -> ModelDescription:
    """Read the sizes; raises as `read_description`."""
    keys = Keys(header)
    if keys.size("expert_count", 0, low=0) == 0:
        raise ModelRefused(
            f"{header.path}: a `llama` model without experts; only those with experts "
            f"(Mixtral) run here"
        )
    return read_description(
        keys,
        kv_bytes_per_layer=read_heads(keys).kv_bytes_per_token,
        n_ff_expert=keys.size("feed_forward_length"),
        computed=(_WINDOW,),
    )


def load(model_file: ModelFile, kernel: Kernel, operations: RowOperations) -> Decoder:
    """Read everything but the routed experts; raises as `load_decoder`."""
    description, keys = describe(model_file), Keys(model_file)
    heads, router = read_heads(keys), _router(keys)
    n_rotated = keys.rotated(heads.head_dim)
    rope = Rope(read_rope(model_file, n_rotated=n_rotated, interleaved=True))
    window = keys.size(_WINDOW, 0, low=0, high=MAX_CONTEXT) or None

    def layer(reader: LayerReader) -> DecoderLayer:
        return DecoderLayer(
            attn_norm=reader.norm("attn_norm"),
            attention=_attention(reader, heads, rope, window),
            ffn_norm=reader.norm("ffn_norm"),
            router=reader.router(router),
            feed_forward=None,
        )

    return load_decoder(model_file, kernel, operations, description, layer)


def _attention(
    reader: LayerReader, heads: HeadSettings, rope: Rope, window: int | None
) -> AttentionLayer:
    return AttentionLayer(
        heads=heads,
        qkv=reader.qkv(heads, biased=reader.has("attn_q", "bias")),
        output=reader.attention_output(heads, biased=reader.has("attn_output", "bias")),
        rope=rope,
        rule=replace(heads.rule, window=window),
        operations=reader.operations,
    )


def _router(keys: Keys) -> RouterSettings:
    return read_router(keys, functions=(ScoreFunction.SOFTMAX,), norm=True)
