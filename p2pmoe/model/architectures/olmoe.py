"""OLMoE: GQA with QK norm over all heads, softmax-routed experts, nothing beside them.

Per layer, with pre-norm and plain residuals:

    x = x + Wo attend(rope(q), rope(k), v),  a = norm(x)
        q = clip(norm_q(Wq a)), k = clip(norm_k(Wk a)), v = clip(Wv a)
    x = x + experts(norm(x))

swiglu throughout; every layer has experts. The norms take all heads as one row. The
clip is there if the file has `attention.clamp_kqv` (the publisher's clip_qkv, null in
the published models). Rotary over whole heads, in halves; heads have
embedding_length / head_count values.

The router: softmax of all, the chosen as they are unless the file says otherwise: files
do not carry the publisher's norm_topk_prob, which is false in the published models.
Experts are of feed_forward_length; the file has no key of their own for it.
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

ARCHITECTURE: Final = "olmoe"

_CLIP: Final = "attention.clamp_kqv"
_MAX_CLIP: Final = 1e30


def describe(header: ModelHeader) -> ModelDescription:
    """Read the sizes; raises as `read_description`."""
    keys = Keys(header)
    return read_description(
        keys,
        kv_bytes_per_layer=read_heads(keys).kv_bytes_per_token,
        n_ff_expert=keys.size("feed_forward_length"),
        computed=(_CLIP,),
    )


def load(model_file: ModelFile, kernel: Kernel, operations: RowOperations) -> Decoder:
    """Read everything but the routed experts; raises as `load_decoder`."""
    keys = Keys(model_file)
    heads, router = read_heads(keys), _router(keys)
    n_rotated = keys.rotated(heads.head_dim)
    rope = Rope(read_rope(model_file, n_rotated=n_rotated, interleaved=False))
    clip = keys.real(_CLIP, 0.0, low=0.0, high=_MAX_CLIP) or None

    def layer(reader: LayerReader) -> DecoderLayer:
        return DecoderLayer(
            attn_norm=reader.norm("attn_norm"),
            attention=_attention(reader, heads, rope, clip),
            ffn_norm=reader.norm("ffn_norm"),
            router=reader.router(router),
            feed_forward=None,
        )

    return load_decoder(model_file, kernel, operations, describe(model_file), layer)


def _attention(
    reader: LayerReader, heads: HeadSettings, rope: Rope, clip: float | None
) -> AttentionLayer:
    return AttentionLayer(
        heads=heads,
        qkv=reader.qkv(heads),
        output=reader.attention_output(heads),
        rope=rope,
        rule=heads.rule,
        operations=reader.operations,
        qk_norm=reader.row_norm(heads),
        clip=clip,
    )


def _router(keys: Keys) -> RouterSettings:
    return read_router(keys, functions=(ScoreFunction.SOFTMAX,), norm=False)
