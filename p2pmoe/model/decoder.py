"""The forward pass that all architectures share: pre-norm layers with plain residuals.

    x = embedding[token]
    x = x + attention(norm(x))            for each layer
    x = x + feed_forward(norm(x))
    logits = output(norm(x)), soft-capped where the file says so

The feed-forward is dense, or routed experts plus what is beside them (a shared expert,
or nothing). What attention, router and feed-forward are is the architecture's, which
builds each `DecoderLayer`; `load_decoder` calls it for each layer and reads the rest.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import Matrix
from p2pmoe.model.description import ModelDescription
from p2pmoe.model.errors import CacheFull, ModelRefused, TokenRefused
from p2pmoe.model.experts import ExpertCaller, PendingExperts, WithBeside
from p2pmoe.model.kv_cache import KvCache, LayerCache
from p2pmoe.model.layer_reader import LayerReader
from p2pmoe.model.linear import Linear
from p2pmoe.model.logits import Logits
from p2pmoe.model.metadata_keys import Keys
from p2pmoe.model.router import Router
from p2pmoe.model.row_operations import RowOperations
from p2pmoe.model.settings import read_eps
from p2pmoe.model.soft_cap import soft_cap
from p2pmoe.model.step import Run, SequencePart, StepRows
from p2pmoe.model.tensors import read_floats, read_matrix, take_rows
from p2pmoe.model.walk import Layers, Routes, Walk
from p2pmoe.weights.model_file import ModelFile

__all__ = ["Attention", "Decoder", "DecoderLayer", "load_decoder"]

# Tensors beside the layers; those of rope are read in `rope_settings`.
_ENDS: Final = frozenset(
    {
        "token_embd.weight",
        "output_norm.weight",
        "output.weight",
        "rope_freqs.weight",
        "rope_factors_long.weight",
        "rope_factors_short.weight",
    }
)
_IN_BLOCK: Final = re.compile(r"blk\.(0|[1-9][0-9]{0,5})\..+")


class Attention(Protocol):
    """A layer's attention of any kind."""

    def empty_cache(self, n_tokens: int, limit: int) -> LayerCache:
        """Return memory for `n_tokens` positions; the cache may grow to `limit`."""
        ...

    def __call__(self, a: Floats, kept: Sequence[LayerCache], rows: StepRows) -> Floats:
        """Return f32 [n, n_embd] for normed rows and write what later rows need.

        `kept` is the layer's cache of each run of rows.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecoderLayer:
    """One layer's parts; without a router the feed-forward is the whole of it."""

    attn_norm: Floats
    attention: Attention
    ffn_norm: Floats
    router: Router | None
    feed_forward: Callable[[Floats], Floats] | None  # dense, or beside the experts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decoder:
    """A loaded model; see `Model`."""

    description: ModelDescription
    operations: RowOperations
    eps: np.float32  # of all norms here
    layers: tuple[DecoderLayer, ...]
    embedding: Matrix  # [n_vocab, n_embd]
    output_norm: Floats  # [n_embd]
    output: Linear  # to the logits
    soft_cap: float | None = None  # of the logits

    def routers(self) -> dict[int, Router]:
        """Return the routers by layer; see `Model.routers`."""
        return {
            number: layer.router
            for number, layer in enumerate(self.layers)
            if layer.router is not None
        }

    def new_cache(self, n_tokens: int, *, limit: int | None = None) -> KvCache:
        """Return an empty cache; see `Model.new_cache`."""
        most = n_tokens if limit is None else limit
        if not 0 < n_tokens <= most <= self.description.n_context:
            raise CacheFull(
                f"{n_tokens} tokens, at most {most}, do not fit the context of "
                f"{self.description.n_context}"
            )
        layers = (layer.attention.empty_cache(n_tokens, most) for layer in self.layers)
        return KvCache(n_tokens, tuple(layers), most)

    def forward(
        self,
        tokens: Sequence[int],
        cache: KvCache,
        experts: ExpertCaller,
        *,
        logits: Logits = Logits.LAST,
    ) -> Floats:
        """Run one sequence's tokens; see `Model.forward`."""
        return self.step([SequencePart(tokens, cache, logits)], experts)[0]

    def step(
        self, parts: Sequence[SequencePart], experts: ExpertCaller
    ) -> list[Floats]:
        """Run several sequences' tokens; see `Model.step`."""
        return self.walk(parts, experts).run()

    def walk(
        self,
        parts: Sequence[SequencePart],
        experts: ExpertCaller,
        routes: Routes | None = None,
    ) -> Walk:
        """Begin a step that stops at each layer's experts; see `Model.walk`."""
        return Walk(self._layers(parts, StepRows.of(parts), experts, routes))

    def _layers(
        self,
        parts: Sequence[SequencePart],
        rows: StepRows,
        experts: ExpertCaller,
        routes: Routes | None,
    ) -> Layers:
        x = self._embed([token for part in parts for token in part.tokens])
        caches = zip(*(part.cache.layers for part in parts), strict=True)
        for number, (layer, kept) in enumerate(zip(self.layers, caches, strict=True)):
            x += layer.attention(self._norm(x, layer.attn_norm), kept, rows)
            hidden = self._norm(x, layer.ffn_norm)
            if layer.router is None:
                x += _dense(number, layer, hidden)
                continue
            if routes is None:
                routing = layer.router.route(hidden)
            else:
                routing = routes(number, layer.router, hidden)
            pending = experts.begin(number, hidden, routing)
            if layer.feed_forward is not None:
                pending = WithBeside(pending, layer.feed_forward, hidden)
            yield from _under_way(pending)
            x += pending.finish()
        results = self._logits(x, parts, rows)
        for part in parts:
            part.cache.advance(len(part.tokens))
        return results

    def _logits(
        self, x: Floats, parts: Sequence[SequencePart], rows: StepRows
    ) -> list[Floats]:
        """Return the logits that each part asks for; NonFinite."""
        wanted = [
            _wanted(part.logits, run)
            for part, run in zip(parts, rows.runs, strict=True)
        ]
        n_wanted = sum(map(len, wanted))
        if n_wanted == 0:
            return [np.empty((0, self.description.n_vocab), np.float32) for _ in parts]
        if n_wanted < rows.n:
            x = x[[row for own in wanted for row in own]]
        result = self.output(self._norm(x, self.output_norm))
        if self.soft_cap is not None:
            result = soft_cap(result, self.soft_cap)
        if not np.isfinite(result).all():
            raise NonFinite("a logit is not finite")
        ends = itertools.accumulate(map(len, wanted))
        return [
            result[end - len(own) : end] for own, end in zip(wanted, ends, strict=True)
        ]

    def _norm(self, x: Floats, weight: Floats) -> Floats:
        return self.operations.rms_norm(x, weight, self.eps)

    def _embed(self, tokens: Sequence[int]) -> Floats:
        ids = list(tokens)
        if min(ids) < 0 or max(ids) >= self.description.n_vocab:
            raise TokenRefused(
                f"token ids {min(ids)}..{max(ids)} are not all below "
                f"{self.description.n_vocab}"
            )
        return take_rows(self.embedding, ids)


def _under_way(pending: PendingExperts) -> Iterator[PendingExperts]:
    """Stop; a walk that is closed here gives them up."""
    try:
        yield pending
    except BaseException:
        pending.abandon()
        raise


def _dense(number: int, layer: DecoderLayer, hidden: Floats) -> Floats:
    """Return the feed-forward of a layer without routed experts."""
    if layer.feed_forward is None:
        raise ValueError(f"layer {number} has no feed-forward")
    return layer.feed_forward(hidden)


def _wanted(logits: Logits, run: Run) -> range:
    """Return the rows of a run whose logits are asked for."""
    if logits is Logits.NONE:
        return range(0)
    return range(run.end - 1 if logits is Logits.LAST else run.start, run.end)


def load_decoder(
    model_file: ModelFile,
    kernel: Kernel,
    operations: RowOperations,
    description: ModelDescription,
    layer: Callable[[LayerReader], DecoderLayer],
) -> Decoder:
    """Read a model: each layer as `layer` builds it, then embedding and head.

    A file without `output.weight` uses the embedding for both. Raises ModelRefused,
    ModelFileError, FormatUnsupported; ModelRefused for a tensor that nobody reads.
    """
    _refuse_unread(model_file, description)
    keys, n_embd = Keys(model_file), description.n_embd
    eps = read_eps(keys)
    layers = tuple(
        _load_layer(
            LayerReader(
                file=model_file,
                kernel=kernel,
                operations=operations,
                description=description,
                eps=eps,
                number=number,
            ),
            layer,
        )
        for number in range(description.n_layer)
    )
    shape = (description.n_vocab, n_embd)
    embedding = output = read_matrix(model_file, "token_embd.weight", shape)
    if "output.weight" in model_file.tensors:
        output = read_matrix(model_file, "output.weight", shape)
    return Decoder(
        description=description,
        operations=operations,
        eps=eps,
        layers=layers,
        embedding=embedding,
        output_norm=read_floats(model_file, "output_norm.weight", n_embd),
        output=Linear(kernel, output),
        soft_cap=keys.soft_cap("final_logit_softcapping"),
    )


def _load_layer(
    reader: LayerReader, build: Callable[[LayerReader], DecoderLayer]
) -> DecoderLayer:
    layer = build(reader)
    if layer.router is None and layer.feed_forward is None:
        raise ModelRefused(f"tensor {reader.name('ffn_gate_inp')} is missing")
    reader.refuse_unread()
    return layer


def _refuse_unread(model_file: ModelFile, description: ModelDescription) -> None:
    """Refuse a tensor that is none of `_ENDS` and in none of the file's blocks.

    Next-token blocks, behind the layers, are not read, so they may hold anything;
    beyond block_count there are none.
    """
    n_block = Keys(model_file).size("block_count")
    for name in model_file.tensors:
        block = _IN_BLOCK.fullmatch(name)
        if name not in _ENDS and (block is None or int(block[1]) >= n_block):
            raise ModelRefused(
                f"tensor {name} has no place in {description.architecture} of "
                f"{n_block} blocks as it is computed here"
            )
