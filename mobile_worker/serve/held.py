"""The experts in memory, ready to compute: in their file's own bytes, within a budget.

A model is known by the hash of its manifest; two backbones that serve the same model
share its experts. What goes in has been verified by its reader. A shard that does not
fit into what is left of the budget is refused before it is loaded, so that two that
fit singly but not together never meet (faults B15). No I/O.
"""

from collections import Counter
from dataclasses import dataclass, field

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.codecs import is_integer
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.errors import LocalError
from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.manifest import ExpertLayout, Manifest, ManifestExpert
from mobile_worker.shards.shard import check_expert, expert_weights

__all__ = ["HeldExperts", "HeldModel", "MemoryExhausted"]


_MIN_UNPACKED_BYTES = 64 << 20


class MemoryExhausted(LocalError):
    """An expert does not fit into the memory that was promised."""


@dataclass(slots=True, kw_only=True, eq=False)
class HeldModel:
    """One model: its manifest, and the weights of the experts held here."""

    name: bytes  # hash of the manifest
    manifest: Manifest
    experts: dict[ExpertId, ManifestExpert]  # all of the model
    weights: dict[ExpertId, ExpertWeights] = field(default_factory=dict)

    def macs(self, expert: ExpertId) -> int:
        """Return the multiply-adds of one row of the expert."""
        layout = self.manifest.layouts[self.experts[expert].layout]
        return 3 * layout.n_ff * layout.n_embd

    def needs(self, expert: ExpertId) -> tuple[bool, bool]:
        """Return whether the expert reads coded rows, and whether f32 rows."""
        layout = self.manifest.layouts[self.experts[expert].layout]
        inputs = {
            is_integer(Format(layout.gate_format)),
            is_integer(Format(layout.up_format)),
        }
        return True in inputs, False in inputs


class HeldExperts:
    """All models with experts in memory."""

    def __init__(self, max_bytes: int) -> None:
        """Hold at most `max_bytes` of shards."""
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self._models: dict[bytes, HeldModel] = {}
        self._shards: dict[bytes, bytes] = {}  # by SHA-256; the weights' own bytes
        self._n_holding: Counter[bytes] = Counter()  # models, by SHA-256

    def learn(self, name: bytes, manifest: Manifest) -> HeldModel:
        """Return the model of this manifest, known from now on."""
        if name not in self._models:
            self._models[name] = HeldModel(
                name=name,
                manifest=manifest,
                experts={expert.expert: expert for expert in manifest.experts},
            )
        return self._models[name]

    def model(self, name: bytes) -> HeldModel | None:
        """Return the model whose manifest has this hash, if known."""
        return self._models.get(name)

    def names(self) -> frozenset[bytes]:
        """Return the names of all models known."""
        return frozenset(self._models)

    def check_room(self, n_bytes: int) -> None:
        """Refuse what does not fit.

        Raises:
            MemoryExhausted: the budget has no room for `n_bytes` more.
        """
        if self.used_bytes + n_bytes > self.max_bytes:
            raise MemoryExhausted(
                f"{n_bytes} bytes do not fit: "
                f"{self.used_bytes} of {self.max_bytes} are in use"
            )

    def check_width(self, layout: ExpertLayout) -> None:
        """Refuse an expert that would not fit once unpacked.

        Raises:
            MemoryExhausted: its gate and up matrix, unpacked to f32 as they are while
                it computes, take more than the whole budget, or 64 MiB.
        """
        n_bytes = 2 * 4 * layout.n_ff * layout.n_embd
        max_bytes = max(self.max_bytes, _MIN_UNPACKED_BYTES)
        if n_bytes > max_bytes:
            raise MemoryExhausted(
                f"an expert of {n_bytes} bytes unpacked, {max_bytes} are given"
            )

    def hold(self, model: HeldModel, expert: ExpertId, shard: bytes) -> None:
        """Take a verified shard into memory.

        Raises:
            MemoryExhausted: no room.
            ShardMisfit, FormatUnsupported, MatrixMalformed: the manifest's layout does
                not describe these bytes, or not in a format known here, or a weight
                or scale is no finite number.
        """
        if expert in model.weights:
            return
        self.check_room(len(shard))
        layout = model.manifest.layouts[model.experts[expert].layout]
        self.check_width(layout)
        weights = expert_weights(shard, layout)
        check_expert(weights, expert)
        model.weights[expert] = weights
        digest = model.experts[expert].digest
        self._shards[digest] = shard
        self._n_holding[digest] += 1
        self.used_bytes += len(shard)

    def shard(self, digest: bytes) -> bytes | None:
        """Return the shard with this SHA-256 if it is in memory."""
        return self._shards.get(digest)

    def drop(self, name: bytes, keep: frozenset[ExpertId]) -> None:
        """Forget the experts of a model that are not in `keep`."""
        model = self._models.get(name)
        if model is None:
            return
        for expert in [e for e in model.weights if e not in keep]:
            del model.weights[expert]
            self._let_go(model.experts[expert].digest)
            self.used_bytes -= model.experts[expert].n_bytes
        if not keep:
            del self._models[name]

    def _let_go(self, digest: bytes) -> None:
        """Forget a shard, unless another model has it, too."""
        self._n_holding[digest] -= 1
        if not self._n_holding[digest]:
            del self._n_holding[digest]
            self._shards.pop(digest, None)
