"""DeepSeek-V2, V3 and R1, Kimi-K2: latent attention, many small routed experts.

Per layer, with pre-norm and plain residuals:

    x = x + mla(norm(x))                                   (`mla`)
    x = x + feed-forward(norm(x))

The feed-forward is dense in the leading layers, else routed experts plus the shared
ones, which the file has as one. swiglu throughout; rotary on neighbouring values. The
norms of the two latents have an epsilon of their own, 1e-6, as the publisher's code.

The router of V2: softmax, the best (Lite) or the best of the best groups, weights not
normed, times the routed scale. Of V3 and Kimi-K2: sigmoid, a selection bias, groups
ranked by the sum of their two best, weights divided by their sum, times the scale.

What older files do not say. No expert_gating_func: sigmoid if the layers have a
selection bias, else softmax. No expert_weights_norm: not normed. No
expert_group_count: the published groups of the two shapes that have them, 160 experts
with softmax (V2, 8 groups, 3 used) and 256 with sigmoid (V3, R1, 8 groups, 4 used);
llama.cpp runs such files without groups. No yarn_beta_fast: 32, but 1 where 384 experts
are scored by sigmoid (Kimi-K2, K2-0905 and K2-Thinking, whose files of 2025 do not say
it; later models of that shape do); llama.cpp runs those files with 32.
No key_length_mla and one attn_kv_b in place of attn_k_b and attn_v_b: the same
numbers, head by head, keys not transposed.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import Matrix, rows_of
from p2pmoe.model.attention import AttentionRule
from p2pmoe.model.choice import RouterSettings, ScoreFunction
from p2pmoe.model.decoder import Decoder, DecoderLayer, load_decoder
from p2pmoe.model.description import ModelDescription
from p2pmoe.model.head_products import (
    HeadMatrices,
    HeadProducts,
    read_heads,
    split_heads,
    transposed,
)
from p2pmoe.model.layer_reader import LayerReader
from p2pmoe.model.linear import FeedForward, Linear
from p2pmoe.model.metadata_keys import Keys
from p2pmoe.model.mla import LatentQuery, LatentSizes, MlaLayer
from p2pmoe.model.rope import Rope
from p2pmoe.model.rope_settings import RopeSettings, read_rope
from p2pmoe.model.router import Router
from p2pmoe.model.row_operations import RowOperations
from p2pmoe.model.settings import read_description, read_router
from p2pmoe.weights.model_file import ModelFile
from p2pmoe.weights.model_header import ModelHeader

__all__ = ["ARCHITECTURE", "describe", "load"]

ARCHITECTURE: Final = "deepseek2"

# Of the latents' own norms; the publisher's code has it whatever its config says.
_LATENT_EPS: Final = np.float32(1e-6)

# (experts, how they are scored) -> groups and groups used, where a file does not say.
_PUBLISHED_GROUPS: Final = {
    (160, ScoreFunction.SOFTMAX): (8, 3),
    (256, ScoreFunction.SIGMOID): (8, 4),
}

# The same -> YaRN's beta_fast, where a file does not say.
_PUBLISHED_BETA_FAST: Final = {(384, ScoreFunction.SIGMOID): 1.0}


def describe(header: ModelHeader) -> ModelDescription:
    """Read the sizes; raises as `read_description`."""
    keys = Keys(header)
    per_layer = _sizes(keys).kv_bytes_per_token
    return read_description(keys, kv_bytes_per_layer=per_layer)


def load(model_file: ModelFile, kernel: Kernel, operations: RowOperations) -> Decoder:
    """Read everything but the routed experts; raises as `load_decoder`."""
    keys = Keys(model_file)
    sizes, router = _sizes(keys), _router(keys)
    rope = _rope(model_file, sizes, (keys.size("expert_count"), router.score_function))
    tables = Rope(rope)

    def layer(reader: LayerReader) -> DecoderLayer:
        own_router = reader.router(router)
        return DecoderLayer(
            attn_norm=reader.norm("attn_norm"),
            attention=_attention(reader, sizes, rope, tables),
            ffn_norm=reader.norm("ffn_norm"),
            router=own_router,
            feed_forward=_feed_forward(reader, own_router),
        )

    return load_decoder(model_file, kernel, operations, describe(model_file), layer)


def _attention(
    reader: LayerReader, own: LatentSizes, rope: RopeSettings, tables: Rope
) -> MlaLayer:
    into_query = "attn_q" if own.n_query is None else "attn_q_a"
    n_query = own.n_query or own.n_heads * own.n_head
    shared = {into_query: n_query, "attn_kv_a_mqa": own.n_latent + own.n_rope}
    absorb, expand = _head_matrices(reader, own)
    n_values = own.n_heads * own.n_value
    return MlaLayer(
        sizes=own,
        down=reader.linear(shared, reader.n_embd),
        query=_query(reader, own),
        latent_norm=reader.norm("attn_kv_a_norm", own.n_latent),
        absorb=HeadProducts(reader.kernel, absorb),
        expand=HeadProducts(reader.kernel, expand),
        output=reader.linear({"attn_output": reader.n_embd}, n_values),
        rope=tables,
        rule=AttentionRule(
            scale=rope.score_factor / math.sqrt(own.n_head),
            soft_cap=Keys(reader.file).soft_cap("attn_logit_softcapping"),
        ),
        eps=_LATENT_EPS,
        operations=reader.operations,
    )


def _router(keys: Keys) -> RouterSettings:
    biased = any(name.endswith(".exp_probs_b.bias") for name in keys.header.tensors)
    functions = [ScoreFunction.SOFTMAX, ScoreFunction.SIGMOID]
    settings = read_router(
        keys, functions=functions[::-1] if biased else functions, norm=False
    )
    if keys.has("expert_group_count"):
        return settings
    kind = (keys.size("expert_count"), settings.score_function)
    n_groups, n_used = _PUBLISHED_GROUPS.get(kind, (1, 1))
    return replace(settings, n_groups=n_groups, n_groups_used=n_used)


def _feed_forward(reader: LayerReader, router: Router | None) -> FeedForward | None:
    if router is None:
        return reader.dense()
    return reader.shared_expert() if reader.has("ffn_gate_shexp") else None


def _sizes(keys: Keys) -> LatentSizes:
    """Read the widths; heads' own are the `_mla` keys, or the plain ones without."""
    suffix = "_mla" if keys.has("attention.key_length_mla") else ""
    n_head = keys.size(f"attention.key_length{suffix}")
    n_rope = keys.size("rope.dimension_count")
    has_query = keys.has("attention.q_lora_rank")
    return LatentSizes(
        n_heads=keys.size("attention.head_count"),
        n_nope=n_head - n_rope,
        n_rope=n_rope,
        n_value=keys.size(f"attention.value_length{suffix}"),
        n_latent=keys.size("attention.kv_lora_rank"),
        n_query=keys.size("attention.q_lora_rank") if has_query else None,
    )


def _rope(
    model_file: ModelFile, sizes: LatentSizes, kind: tuple[int, ScoreFunction]
) -> RopeSettings:
    rope = read_rope(model_file, n_rotated=sizes.n_rope, interleaved=True)
    silent = not Keys(model_file).has("rope.scaling.yarn_beta_fast")
    if rope.ramp is None or not silent or kind not in _PUBLISHED_BETA_FAST:
        return rope
    ramp = replace(rope.ramp, beta_fast=_PUBLISHED_BETA_FAST[kind])
    return replace(rope, ramp=ramp)


def _query(reader: LayerReader, own: LatentSizes) -> LatentQuery | None:
    if own.n_query is None:
        return None
    up: Linear = reader.linear({"attn_q_b": own.n_heads * own.n_head}, own.n_query)
    return LatentQuery(norm=reader.norm("attn_q_a_norm", own.n_query), up=up)


def _head_matrices(
    reader: LayerReader, own: LatentSizes
) -> tuple[HeadMatrices, HeadMatrices]:
    """Return what takes queries into the latent and values out of it, head by head."""
    parts = ("attn_k_b", "attn_v_b", "attn_kv_b")
    shapes = [_shape(reader, reader.name(part)) for part in parts]
    flat = shapes[2] and 2 in map(len, shapes[:2])  # as a fork of llama.cpp has them
    if shapes[0] and not flat:  # some files have both
        k_shape = (own.n_heads, own.n_latent, own.n_nope)
        v_shape = (own.n_heads, own.n_value, own.n_latent)
        return (
            read_heads(reader.file, reader.name("attn_k_b"), k_shape),
            read_heads(reader.file, reader.name("attn_v_b"), v_shape),
        )
    n_rows = own.n_nope + own.n_value
    both = reader.matrix("attn_kv_b", own.n_heads * n_rows, own.n_latent)

    def keys() -> Sequence[Matrix]:
        heads = split_heads(both, own.n_heads)
        return [transposed(rows_of(head, 0, own.n_nope)) for head in heads]

    def values() -> Sequence[Matrix]:
        heads = split_heads(both, own.n_heads)
        return [rows_of(head, own.n_nope, n_rows) for head in heads]

    return keys, values


def _shape(reader: LayerReader, name: str) -> tuple[int, ...]:
    tensor = reader.file.tensors.get(name)
    return () if tensor is None else tensor.shape
