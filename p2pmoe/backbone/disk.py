"""Routed experts on the local disk: positioned reads into a bounded cache.

Never mapped: a file cut short is an error naming it, for that read alone (fault B03).
The cache holds shards in the file's own bytes, least recently used first out; it is
shared by all lanes. Matrices are the same objects for as long as they are cached, so
that a kernel may keep what it decoded of them.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from mobile_worker.arithmetic.coding import ExpertInput, Floats
from mobile_worker.arithmetic.errors import FormatUnsupported, MatrixMalformed
from mobile_worker.arithmetic.formats.codecs import is_integer
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.shard import check_expert, expert_weights
from p2pmoe.backbone.cost import LocalCost
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.experts import expert_ranges, read_expert
from p2pmoe.weights.manifest import expert_layout
from p2pmoe.weights.model_file import ModelFile
from p2pmoe.weights.names import expert_activation

__all__ = ["DiskTier", "ExpertFile"]

log = logging.getLogger("p2pmoe.backbone")


class ExpertFile:
    """The routed experts of a model file, read one at a time; any thread."""

    def __init__(self, model_file: ModelFile) -> None:
        """Read experts of `model_file`, which stays open."""
        self._file = model_file
        self._activation = expert_activation(model_file)
        self._kinds: dict[int, tuple[bool, bool]] = {}
        self._checked: set[ExpertId] = set()  # found to hold numbers, once

    def n_bytes(self, expert: ExpertId) -> int:
        """Return the bytes of an expert's shard."""
        return expert_ranges(self._file, expert).n_bytes

    def shard(self, expert: ExpertId) -> memoryview:
        """Return gate || up || down; ModelFileError if the file was cut short."""
        return read_expert(self._file, expert_ranges(self._file, expert))

    def weights(self, expert: ExpertId) -> ExpertWeights:
        """Return an expert's matrices.

        Raises:
            ModelFileError: it was cut short, has no whole blocks or holds no numbers.
            FormatUnsupported: naming the expert.
        """
        ranges = expert_ranges(self._file, expert)
        shard = read_expert(self._file, ranges)
        try:
            weights = expert_weights(shard, expert_layout(ranges, self._activation))
            if expert not in self._checked:
                check_expert(weights, expert)
                self._checked.add(expert)
        except FormatUnsupported as exc:
            reason = f"{self._file.path}, expert {expert}: {exc}"
            raise FormatUnsupported(reason) from exc
        except MatrixMalformed as exc:
            raise ModelFileError(self._file.path, str(exc)) from exc
        return weights

    def code(self, layer: int, hidden: Floats, kernel: Kernel) -> ExpertInput:
        """Return rows f32 [n, n_embd] in the kinds this layer's experts read.

        Raises:
            NonFinite: a value is not finite.
        """
        kinds = self._kinds.get(layer)
        if kinds is None:
            ranges = expert_ranges(self._file, ExpertId(layer, 0))
            formats = [m.format for m in (ranges.gate, ranges.up)]
            integer = [is_integer(f) for f in formats]
            kinds = self._kinds[layer] = (any(integer), not all(integer))
        coded, floats = kinds
        return ExpertInput(
            coded=kernel.code_rows(hidden) if coded else None,
            floats=hidden if floats else None,
        )


class DiskTier:
    """A bounded cache over an `ExpertFile`; thread-safe."""

    def __init__(
        self,
        expert_file: ExpertFile,
        *,
        max_bytes: int,
        cost: LocalCost,
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Keep at most `max_bytes` of shards (one is always kept while it is used)."""
        self._file = expert_file
        self._max_bytes = max_bytes
        self._cost = cost
        self._monotonic = monotonic
        self._kept: OrderedDict[ExpertId, tuple[ExpertWeights, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.n_bytes = 0  # in the cache now
        self.n_reads = 0
        self.n_read_bytes = 0
        self.n_hits = 0
        self.lost: set[ExpertId] = set()  # each is logged once

    def load(self, expert: ExpertId) -> ExpertWeights:
        """Return an expert, from the cache or the disk; ModelFileError."""
        with self._lock:
            kept = self._kept.get(expert)
            if kept is not None:
                self._kept.move_to_end(expert)
                self.n_hits += 1
                return kept[0]
        start = self._monotonic()
        try:
            weights = self._file.weights(expert)
        except ModelFileError as error:
            self._note_lost(expert, error)
            raise
        n_bytes = self._file.n_bytes(expert)
        with self._lock:
            self._cost.observe_read(self._monotonic() - start, n_bytes)
            self.n_reads += 1
            self.n_read_bytes += n_bytes
            known = self._kept.get(expert)
            if known is not None:
                return known[0]
            if n_bytes <= self._max_bytes:
                self._keep(expert, weights, n_bytes)
        return weights

    def _note_lost(self, expert: ExpertId, error: ModelFileError) -> None:
        with self._lock:
            is_news = expert not in self.lost
            self.lost.add(expert)
        if is_news:
            log.error("shard lost: %s", error)

    def _keep(self, expert: ExpertId, weights: ExpertWeights, n_bytes: int) -> None:
        while self._kept and self.n_bytes + n_bytes > self._max_bytes:
            _, (_, freed) = self._kept.popitem(last=False)
            self.n_bytes -= freed
        self._kept[expert] = (weights, n_bytes)
        self.n_bytes += n_bytes
