"""MiniMax-M3: GQA with per-head QK norm, block-sparse layers, sigmoid-routed experts.

Per layer, with pre-norm and plain residuals:

    x = x + Wo attend(rope(norm_q(Wq a)), rope(norm_k(Wk a)), Wv a),  a = norm(x)
    x = x + feed-forward(norm(x))

The feed-forward is dense in the leading layers, else routed experts plus one shared
expert; swiglu_oai throughout. Rotary on the first values of each head, in halves. A
layer with indexer tensors is block-sparse (`block_selection`); the indexer reads the
same normed input, has its own norms, and turns its heads the same way. The norms'
weights are used as the file has them: the converter has already added 1.

Constants that the file does not carry: swiglu_oai's alpha 1.702 and limit 7.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from p2pmoe.model.architectures.minimax_m3_settings import (
    ARCHITECTURE,
    MAX_CONTEXT,
    Settings,
    positive,
    read_settings,
)
from p2pmoe.model.attention import attend
from p2pmoe.model.description import ModelDescription
from p2pmoe.model.errors import CacheFull, ModelRefused, TokenRefused
from p2pmoe.model.experts import ExpertCaller
from p2pmoe.model.kv_cache import KvCache, LayerCache, empty_layer
from p2pmoe.model.linear import FeedForward, Linear
from p2pmoe.model.logits import Logits
from p2pmoe.model.norm import rms_norm
from p2pmoe.model.rope import Rope
from p2pmoe.model.router import Router
from p2pmoe.model.tensors import read_floats, read_matrix, take_rows
from p2pmoe.weights.model_file import ModelFile

__all__ = ["ARCHITECTURE", "MiniMaxM3", "describe", "load"]

_ACTIVATION: Final = Activation(kind=ActivationKind.SWIGLU_OAI, alpha=1.702, limit=7.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Indexer:
    """The tensors that choose blocks."""

    query: Linear
    query_norm: Floats  # [index_dim]
    key: Linear
    key_norm: Floats  # [index_dim]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Layer:
    """One layer's tensors; a dense layer has no router."""

    attn_norm: Floats
    qkv: Linear
    qk_norm: Floats  # [n_heads + n_kv_heads, head_dim]
    output: Linear
    indexer: _Indexer | None
    ffn_norm: Floats
    router: Router | None
    feed_forward: FeedForward  # the dense one, or the shared expert


def load(model_file: ModelFile, kernel: Kernel) -> "MiniMaxM3":
    """Read everything but the routed experts."""
    description = describe(model_file)
    settings = read_settings(model_file)
    n_embd = description.n_embd
    layers = tuple(
        _load_layer(model_file, kernel, number, n_embd, settings)
        for number in range(description.n_layer)
    )
    embedding = read_matrix(
        model_file, "token_embd.weight", (description.n_vocab, n_embd)
    )
    output = embedding
    if "output.weight" in model_file.tensors:
        output = read_matrix(model_file, "output.weight", (description.n_vocab, n_embd))
    return MiniMaxM3(
        description,
        settings,
        layers,
        embedding,
        (read_floats(model_file, "output_norm.weight", n_embd), Linear(kernel, output)),
    )


def describe(model_file: ModelFile) -> ModelDescription:
    """Read the sizes."""
    settings = read_settings(model_file)
    n_layer = positive(model_file, "block_count")
    per_layer = 2 * settings.n_kv_heads * settings.head_dim * 4
    n_indexed = sum(_has_indexer(model_file, number) for number in range(n_layer))
    return ModelDescription(
        architecture=ARCHITECTURE,
        n_layer=n_layer,
        n_embd=positive(model_file, "embedding_length"),
        n_vocab=model_file.tensor("token_embd.weight").shape[0],
        n_context=positive(model_file, "context_length", high=MAX_CONTEXT),
        n_expert=positive(model_file, "expert_count"),
        top_k=settings.router.top_k,
        n_ff_expert=positive(model_file, "expert_feed_forward_length"),
        moe_layers=tuple(range(settings.n_leading_dense, n_layer)),
        activation=_ACTIVATION,
        kv_bytes_per_token=n_layer * per_layer + n_indexed * settings.index_dim * 4,
    )


class MiniMaxM3:
    """The architecture's forward pass; a `Model`."""

    def __init__(
        self,
        description: ModelDescription,
        settings: Settings,
        layers: tuple[_Layer, ...],
        embedding: Matrix,
        head: tuple[Floats, Linear],
    ) -> None:
        """Take the loaded parts; `head` is the last norm and the output matrix."""
        self.description = description
        self._settings = settings
        self._layers = layers
        self._embedding = embedding
        self._output_norm, self._output = head
        self._rope = Rope(settings.n_rotated, settings.rope_base)

    def new_cache(self, n_tokens: int) -> KvCache:
        """Return an empty cache; CacheFull beyond the model's context."""
        if not 0 < n_tokens <= self.description.n_context:
            raise CacheFull(
                f"{n_tokens} tokens do not fit the context of "
                f"{self.description.n_context}"
            )
        own = self._settings
        layers = (
            empty_layer(
                n_tokens,
                own.n_kv_heads,
                own.head_dim,
                own.index_dim if self._needs_index(layer, n_tokens) else None,
            )
            for layer in self._layers
        )
        return KvCache(n_tokens, tuple(layers))

    def forward(
        self,
        tokens: Sequence[int],
        cache: KvCache,
        experts: ExpertCaller,
        *,
        logits: Logits = Logits.LAST,
    ) -> Floats:
        """Run tokens at the cache's end; see `Model.forward`."""
        if not tokens:
            raise TokenRefused("a step of no tokens")
        first = cache.reserve(len(tokens))
        with np.errstate(all="ignore"):
            x = self._embed(tokens)
            for number, (layer, kept) in enumerate(
                zip(self._layers, cache.layers, strict=True)
            ):
                x += self._attention(layer, x, kept, first)
                x += self._feed_forward(number, layer, x, experts)
            if logits is Logits.LAST:
                x = x[-1:]
            result = self._output(rms_norm(x, self._output_norm, self._settings.eps))
        if not np.isfinite(result).all():
            raise NonFinite("a logit is not finite")
        cache.advance(len(tokens))
        return result

    def _embed(self, tokens: Sequence[int]) -> Floats:
        ids = list(tokens)
        if min(ids) < 0 or max(ids) >= self.description.n_vocab:
            raise TokenRefused(
                f"token ids {min(ids)}..{max(ids)} are not all below "
                f"{self.description.n_vocab}"
            )
        return take_rows(self._embedding, ids)

    def _attention(
        self, layer: _Layer, x: Floats, kept: LayerCache, first: int
    ) -> Floats:
        """Return the attention's output and write the layer's cache."""
        own = self._settings
        n = len(x)
        end = first + n
        a = rms_norm(x, layer.attn_norm, own.eps)
        heads = layer.qkv(a).reshape(n, -1, own.head_dim)
        n_turned = own.n_heads + own.n_kv_heads
        turned = rms_norm(heads[:, :n_turned], layer.qk_norm, own.eps)
        self._rope.turn(turned, first)
        kept.keys[:, :, first:end] = turned[:, own.n_heads :].transpose(1, 2, 0)
        kept.values[first:end] = heads[:, n_turned:]
        seen = self._seen(layer, a, kept, first)
        queries = turned[:, : own.n_heads].reshape(n, own.n_kv_heads, -1, own.head_dim)
        mixed = attend(queries, kept.keys, kept.values, first, seen)
        return layer.output(mixed.reshape(n, -1))

    def _seen(
        self, layer: _Layer, a: Floats, kept: LayerCache, first: int
    ) -> npt.NDArray[np.bool_] | None:
        """Return which positions a block-sparse layer's rows see; None for all."""
        indexer = layer.indexer
        if indexer is None or kept.index_keys is None:
            return None
        own = self._settings
        n = len(a)
        end = first + n
        key = rms_norm(indexer.key(a)[:, None, :], indexer.key_norm, own.eps)
        self._rope.turn(key, first)
        kept.index_keys[0, :, first:end] = key[:, 0].T
        if end <= own.selection.n_all:
            return None
        queries = indexer.query(a).reshape(n, own.n_index_heads, own.index_dim)
        queries = rms_norm(queries, indexer.query_norm, own.eps)
        self._rope.turn(queries, first)
        return own.selection.seen(queries, kept.index_keys[:, :, :end], first)

    def _feed_forward(
        self, number: int, layer: _Layer, x: Floats, experts: ExpertCaller
    ) -> Floats:
        hidden = rms_norm(x, layer.ffn_norm, self._settings.eps)
        if layer.router is None:
            return layer.feed_forward(hidden)
        pending = experts.begin(number, hidden, layer.router.route(hidden))
        shared = layer.feed_forward(hidden)
        return pending.finish() + shared

    def _needs_index(self, layer: _Layer, n_tokens: int) -> bool:
        """Say whether a context this long may ever leave a block out."""
        return layer.indexer is not None and n_tokens > self._settings.selection.n_all


def _load_layer(
    model_file: ModelFile, kernel: Kernel, number: int, n_embd: int, own: Settings
) -> _Layer:
    block = f"blk.{number}"
    n_query, n_kv = (n * own.head_dim for n in (own.n_heads, own.n_kv_heads))
    q, k, v, output = (
        read_matrix(model_file, f"{block}.attn_{part}.weight", shape)
        for part, shape in (
            ("q", (n_query, n_embd)),
            ("k", (n_kv, n_embd)),
            ("v", (n_kv, n_embd)),
            ("output", (n_embd, n_query)),
        )
    )
    q_norm, k_norm = (
        read_floats(model_file, f"{block}.attn_{part}_norm.weight", own.head_dim)
        for part in ("q", "k")
    )
    return _Layer(
        attn_norm=read_floats(model_file, f"{block}.attn_norm.weight", n_embd),
        qkv=Linear(kernel, q, k, v),
        qk_norm=np.concatenate(
            [np.tile(q_norm, (own.n_heads, 1)), np.tile(k_norm, (own.n_kv_heads, 1))]
        ),
        output=Linear(kernel, output),
        indexer=_load_indexer(model_file, kernel, number, n_embd, own),
        ffn_norm=read_floats(model_file, f"{block}.ffn_norm.weight", n_embd),
        router=_load_router(model_file, number, n_embd, own),
        feed_forward=_load_feed_forward(model_file, kernel, number, n_embd, own),
    )


def _load_indexer(
    model_file: ModelFile, kernel: Kernel, number: int, n_embd: int, own: Settings
) -> _Indexer | None:
    if not _has_indexer(model_file, number):
        return None
    if own.n_index_heads != own.n_kv_heads or own.index_dim < own.n_rotated:
        raise ModelRefused(
            f"{own.n_index_heads} index heads of {own.index_dim} values for "
            f"{own.n_kv_heads} KV heads with {own.n_rotated} turned"
        )
    block = f"blk.{number}.indexer"
    q_shape = (own.n_index_heads * own.index_dim, n_embd)
    return _Indexer(
        query=Linear(
            kernel, read_matrix(model_file, f"{block}.q_proj.weight", q_shape)
        ),
        query_norm=read_floats(model_file, f"{block}.q_norm.weight", own.index_dim),
        key=Linear(
            kernel,
            read_matrix(model_file, f"{block}.k_proj.weight", (own.index_dim, n_embd)),
        ),
        key_norm=read_floats(model_file, f"{block}.k_norm.weight", own.index_dim),
    )


def _load_router(
    model_file: ModelFile, number: int, n_embd: int, own: Settings
) -> Router | None:
    if number < own.n_leading_dense:
        return None
    n_expert = positive(model_file, "expert_count")
    weight = read_matrix(
        model_file, f"blk.{number}.ffn_gate_inp.weight", (n_expert, n_embd)
    )
    bias_name = f"blk.{number}.exp_probs_b.bias"
    bias = None
    if bias_name in model_file.tensors:
        bias = read_floats(model_file, bias_name, n_expert)
    return Router(take_rows(weight, list(range(n_expert))), bias, own.router)


def _load_feed_forward(
    model_file: ModelFile, kernel: Kernel, number: int, n_embd: int, own: Settings
) -> FeedForward:
    suffix = "" if number < own.n_leading_dense else "_shexp"
    gate, up, down = (
        read_matrix(model_file, f"blk.{number}.ffn_{part}{suffix}.weight")
        for part in ("gate", "up", "down")
    )
    if gate.n_cols != n_embd:
        raise ModelRefused(f"blk.{number}.ffn_gate{suffix} takes {gate.n_cols} values")
    weights = ExpertWeights(gate=gate, up=up, down=down, activation=_ACTIVATION)
    return FeedForward(kernel, weights)


def _has_indexer(model_file: ModelFile, number: int) -> bool:
    return f"blk.{number}.indexer.q_proj.weight" in model_file.tensors
