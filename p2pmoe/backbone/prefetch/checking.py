"""From fetched bytes to weights: what a worker sends is trusted for nothing.

A shard must have the hash that the manifest names; then it is the model's own bytes,
whoever sent them, and needs to be looked through for numbers only once.
"""

import hashlib

from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.errors import ShardCorrupt
from mobile_worker.shards.manifest import Manifest
from mobile_worker.shards.shard import check_expert, expert_weights

__all__ = ["ShardChecker"]


class ShardChecker:
    """Makes weights of one model's shards; safe to use from threads."""

    def __init__(self, manifest: Manifest) -> None:
        """Know shards by `manifest`."""
        self._entries = {entry.expert: entry for entry in manifest.experts}
        self._layouts = manifest.layouts
        self._looked_through: set[ExpertId] = set()

    def weights(self, expert: ExpertId, shard: memoryview) -> ExpertWeights:
        """Return an expert as views into `shard`.

        Raises:
            ShardCorrupt: these are other bytes.
            ShardMisfit, ArithmeticRefused: the model itself is bad.
            KeyError: it has no such expert.
        """
        entry = self._entries[expert]
        if hashlib.sha256(shard).digest() != entry.digest:
            raise ShardCorrupt(f"the shard of expert {expert} came as other bytes")
        weights = expert_weights(shard, self._layouts[entry.layout])
        if expert not in self._looked_through:
            check_expert(weights, expert)
            self._looked_through.add(expert)
        return weights
