"""How much each routed expert is used: measured, decayed, kept between runs.

Each routed row counts once; older counts fade with a half-life in tokens, so that the
figure follows the traffic and survives a restart. What is known of each expert's next
use (next_use.py) is counted along. `UseCounts.add` is called by decode threads,
everything else by the service. The file is

    "PMUSE1" and two zero bytes | n_layer u32 | n_expert u32 | f64 [n_layer, n_expert]

little-endian, written beside and renamed; a file of another size or with a value that
is no count is ignored: use is measured again, never guessed.
"""

import struct
import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.next_use import NextUse

__all__ = ["UseCounts", "load_use", "save_use"]

HALF_LIFE_TOKENS = 4096
_HEAD = struct.Struct("<8sII")
_MAGIC = b"PMUSE1\0\0"
_RESCALE = 2.0**64

Counts = npt.NDArray[np.float64]


class UseCounts:
    """Decayed counts of routed rows, [n_layer, n_expert]."""

    def __init__(self, n_layer: int, n_expert: int, n_moe_layers: int) -> None:
        """Begin with no use at all."""
        self._counts: Counts = np.zeros((n_layer, n_expert))
        self._since: Counts = np.zeros((n_layer, n_expert))
        self._weight = 1.0
        self.next_use = NextUse(n_layer, n_expert)
        self._step = 2.0 ** (1.0 / (HALF_LIFE_TOKENS * max(1, n_moe_layers)))
        self._lock = threading.Lock()

    def add(self, layer: int, experts: npt.NDArray[np.int64]) -> None:
        """Count the routing of one step: `experts` [n_tokens, top_k]."""
        counts = np.bincount(experts.ravel(), minlength=self._since.shape[1])
        with self._lock:
            self._counts[layer] += self._weight * counts
            self._since[layer] += counts
            self.next_use.add(layer, experts)
            self._weight *= self._step ** len(experts)
            if self._weight > _RESCALE:
                self._counts /= self._weight
                self._weight = 1.0

    def decayed(self) -> Counts:
        """Return a copy of the counts, the newest row weighing 1."""
        with self._lock:
            return self._counts / self._weight

    def take_since(self) -> tuple[tuple[ExpertId, int], ...]:
        """Return plain counts since the last call, those above zero."""
        with self._lock:
            since, self._since = self._since, np.zeros_like(self._since)
        layers, indices = np.nonzero(since)
        return tuple(
            (ExpertId(int(layer), int(index)), min(int(since[layer, index]), 2**32 - 1))
            for layer, index in zip(layers, indices, strict=True)
        )

    def restore(self, counts: Counts) -> None:
        """Take over the counts of an earlier run."""
        with self._lock:
            self._counts = counts * self._weight
            self.next_use.restore(counts)

    @property
    def is_measured(self) -> bool:
        """Whether anything was counted yet."""
        return bool(self._counts.any())


def save_use(path: Path, counts: Counts) -> None:
    """Write counts [n_layer, n_expert] durably enough: beside, then renamed.

    Raises:
        OSError: the folder cannot be written.
    """
    beside = path.with_suffix(".part")
    head = _HEAD.pack(_MAGIC, *counts.shape)
    beside.write_bytes(head + counts.astype("<f8").tobytes())
    beside.replace(path)


def load_use(path: Path, n_layer: int, n_expert: int) -> Counts | None:
    """Return the counts of an earlier run, or None if there are none that fit."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    if len(raw) != _HEAD.size + 8 * n_layer * n_expert:
        return None
    if _HEAD.unpack_from(raw) != (_MAGIC, n_layer, n_expert):
        return None
    counts = np.frombuffer(raw, "<f8", offset=_HEAD.size).reshape(n_layer, n_expert)
    if not (np.isfinite(counts).all() and (counts >= 0).all()):
        return None
    return counts.astype(np.float64)
