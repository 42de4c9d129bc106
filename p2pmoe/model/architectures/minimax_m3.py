"""MiniMax-M3: GQA with per-head QK norm, block-sparse layers, sigmoid-routed experts.

Per layer, with pre-norm and plain residuals:

    x = x + Wo attend(rope(norm_q(Wq a)), rope(norm_k(Wk a)), Wv a),  a = norm(x)
    x = x + feed-forward(norm(x))

The feed-forward is dense in the leading layers, else routed experts plus one shared
expert; swiglu_oai throughout. Rotary on the first values of each head, in halves. A
layer with indexer tensors is block-sparse (`block_selection`); the indexer reads the
same normed input, has its own norms, and turns its heads the same way. The norms'
weights are used as the file has them: the converter has already added 1.

Constants that the file does not carry, swiglu_oai's alpha and limit, are those of
`weights.names`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
from p2pmoe.model.attention_layer import AttentionLayer
from p2pmoe.model.description import ModelDescription
from p2pmoe.model.errors import CacheFull, ModelRefused, TokenRefused
from p2pmoe.model.experts import ExpertCaller
from p2pmoe.model.indexer import Indexer
from p2pmoe.model.kv_cache import KvCache
from p2pmoe.model.linear import FeedForward, Linear
from p2pmoe.model.logits import Logits
from p2pmoe.model.rope import Rope
from p2pmoe.model.router import Router
from p2pmoe.model.row_operations import RowOperations
from p2pmoe.model.tensors import read_floats, read_matrix, take_rows
from p2pmoe.weights.model_file import ModelFile
from p2pmoe.weights.names import expert_activation

__all__ = ["ARCHITECTURE", "MiniMaxM3", "describe", "load"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Layer:
    """One layer's parts; a dense layer has no router."""

    attn_norm: Floats
    attention: AttentionLayer
    ffn_norm: Floats
    router: Router | None
    feed_forward: FeedForward  # the dense one, or the shared expert


def load(
    model_file: ModelFile, kernel: Kernel, operations: RowOperations
) -> "MiniMaxM3":
    """Read everything but the routed experts."""
    description = describe(model_file)
    settings = read_settings(model_file)
    n_embd = description.n_embd
    rope = Rope(settings.n_rotated, settings.rope_base)
    layers = tuple(
        _Loader(
            file=model_file,
            kernel=kernel,
            operations=operations,
            settings=settings,
            rope=rope,
            n_embd=n_embd,
            number=number,
        ).layer()
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
        (operations, settings.eps),
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
        activation=expert_activation(model_file),
        kv_bytes_per_token=n_layer * per_layer + n_indexed * settings.index_dim * 4,
    )


class MiniMaxM3:
    """The architecture's forward pass; a `Model`."""

    def __init__(
        self,
        description: ModelDescription,
        norm: tuple[RowOperations, np.float32],
        layers: tuple[_Layer, ...],
        embedding: Matrix,
        head: tuple[Floats, Linear],
    ) -> None:
        """Take the loaded parts.

        `norm` computes all norms, with its epsilon; `head` is the last norm's weight
        and the output matrix.
        """
        self.description = description
        self._operations, self._eps = norm
        self._layers = layers
        self._embedding = embedding
        self._output_norm, self._output = head

    def new_cache(self, n_tokens: int) -> KvCache:
        """Return an empty cache; CacheFull beyond the model's context."""
        if not 0 < n_tokens <= self.description.n_context:
            raise CacheFull(
                f"{n_tokens} tokens do not fit the context of "
                f"{self.description.n_context}"
            )
        layers = (layer.attention.empty_cache(n_tokens) for layer in self._layers)
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
                a = self._norm(x, layer.attn_norm)
                x += layer.attention(a, kept, first)
                x += self._feed_forward(number, layer, x, experts)
            if logits is Logits.LAST:
                x = x[-1:]
            result = self._output(self._norm(x, self._output_norm))
        if not np.isfinite(result).all():
            raise NonFinite("a logit is not finite")
        cache.advance(len(tokens))
        return result

    def _norm(self, x: Floats, weight: Floats) -> Floats:
        return self._operations.rms_norm(x, weight, self._eps)

    def _embed(self, tokens: Sequence[int]) -> Floats:
        ids = list(tokens)
        if min(ids) < 0 or max(ids) >= self.description.n_vocab:
            raise TokenRefused(
                f"token ids {min(ids)}..{max(ids)} are not all below "
                f"{self.description.n_vocab}"
            )
        return take_rows(self._embedding, ids)

    def _feed_forward(
        self, number: int, layer: _Layer, x: Floats, experts: ExpertCaller
    ) -> Floats:
        hidden = self._norm(x, layer.ffn_norm)
        if layer.router is None:
            return layer.feed_forward(hidden)
        pending = experts.begin(number, hidden, layer.router.route(hidden))
        shared = layer.feed_forward(hidden)
        return pending.finish() + shared


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Loader:
    """Reads one layer's parts."""

    file: ModelFile
    kernel: Kernel
    operations: RowOperations
    settings: Settings
    rope: Rope
    n_embd: int
    number: int

    def layer(self) -> _Layer:
        return _Layer(
            attn_norm=self._floats("attn_norm", self.n_embd),
            attention=self._attention(),
            ffn_norm=self._floats("ffn_norm", self.n_embd),
            router=None if self._is_dense else self._router(),
            feed_forward=self._feed_forward(),
        )

    @property
    def _is_dense(self) -> bool:
        return self.number < self.settings.n_leading_dense

    def _floats(self, part: str, n: int) -> Floats:
        return read_floats(self.file, f"blk.{self.number}.{part}.weight", n)

    def _matrix(self, part: str, n_rows: int, n_cols: int) -> Matrix:
        name = f"blk.{self.number}.{part}.weight"
        return read_matrix(self.file, name, (n_rows, n_cols))

    def _attention(self) -> AttentionLayer:
        own = self.settings
        n_query, n_kv = (n * own.head_dim for n in (own.n_heads, own.n_kv_heads))
        q = self._matrix("attn_q", n_query, self.n_embd)
        k = self._matrix("attn_k", n_kv, self.n_embd)
        v = self._matrix("attn_v", n_kv, self.n_embd)
        q_norm = self._floats("attn_q_norm", own.head_dim)
        k_norm = self._floats("attn_k_norm", own.head_dim)
        return AttentionLayer(
            n_heads=own.n_heads,
            n_kv_heads=own.n_kv_heads,
            head_dim=own.head_dim,
            qkv=Linear(self.kernel, q, k, v),
            qk_norm=np.array([q_norm] * own.n_heads + [k_norm] * own.n_kv_heads),
            output=Linear(
                self.kernel, self._matrix("attn_output", self.n_embd, n_query)
            ),
            indexer=self._indexer(),
            rope=self.rope,
            eps=own.eps,
            operations=self.operations,
        )

    def _indexer(self) -> Indexer | None:
        if not _has_indexer(self.file, self.number):
            return None
        own = self.settings
        if own.n_index_heads != own.n_kv_heads or own.index_dim < own.n_rotated:
            raise ModelRefused(
                f"{own.n_index_heads} index heads of {own.index_dim} values for "
                f"{own.n_kv_heads} KV heads with {own.n_rotated} turned"
            )
        n_query = own.n_index_heads * own.index_dim
        query = self._matrix("indexer.q_proj", n_query, self.n_embd)
        key = self._matrix("indexer.k_proj", own.index_dim, self.n_embd)
        return Indexer(
            query=Linear(self.kernel, query),
            query_norm=self._floats("indexer.q_norm", own.index_dim),
            key=Linear(self.kernel, key),
            key_norm=self._floats("indexer.k_norm", own.index_dim),
            selection=own.selection,
            rope=self.rope,
            eps=own.eps,
            operations=self.operations,
        )

    def _router(self) -> Router:
        n_expert = positive(self.file, "expert_count")
        weight = self._matrix("ffn_gate_inp", n_expert, self.n_embd)
        bias_name = f"blk.{self.number}.exp_probs_b.bias"
        bias = None
        if bias_name in self.file.tensors:
            bias = read_floats(self.file, bias_name, n_expert)
        values = take_rows(weight, list(range(n_expert)))
        return Router(values, bias, self.settings.router, self.operations)

    def _feed_forward(self) -> FeedForward:
        suffix = "" if self._is_dense else "_shexp"
        names = [
            f"blk.{self.number}.ffn_{part}{suffix}.weight"
            for part in ("gate", "up", "down")
        ]
        gate = read_matrix(self.file, names[0])
        if gate.n_cols != self.n_embd:
            raise ModelRefused(f"tensor {names[0]} takes {gate.n_cols} values")
        up = read_matrix(self.file, names[1], (gate.n_rows, self.n_embd))
        down = read_matrix(self.file, names[2], (self.n_embd, gate.n_rows))
        activation = expert_activation(self.file)
        weights = ExpertWeights(gate=gate, up=up, down=down, activation=activation)
        return FeedForward(self.kernel, weights)


def _has_indexer(model_file: ModelFile, number: int) -> bool:
    return f"blk.{number}.indexer.q_proj.weight" in model_file.tensors
