"""Writes a model's experts as shards into a folder, by hash: for a relay's /blob/.

A shard is read from the model's own ranges, hashed as it is written, and counts only if
its hash is the manifest's. Shards that are there already are not written again, so that
a run that was interrupted goes on. Blocking.
"""

from collections.abc import Callable

from mobile_worker.shards.manifest import Manifest
from mobile_worker.shards.store import ShardStore
from p2pmoe.weights.model_file import ModelFile

__all__ = ["export_shards"]

_PIECE_BYTES = 1 << 20


def export_shards(
    model: ModelFile,
    manifest: Manifest,
    store: ShardStore,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> tuple[int, int]:
    """Bring every expert's shard into the store; return how many, and bytes, are new.

    Nothing that is here is removed to make room for another of them.

    Raises:
        StoreFull, StoreUnusable: the folder or its budget.
        ShardCorrupt: the model file is not the one of the manifest.
        ModelFileError: the file cannot be read.
    """
    store.keep({expert.digest.hex() for expert in manifest.experts})
    n_new = n_bytes = 0
    for done, expert in enumerate(manifest.experts):
        progress(done, len(manifest.experts))
        name = expert.digest.hex()
        if store.look(name):
            continue
        part = store.begin(name, expert.n_bytes)
        try:
            skip = part.position
            for offset, length in expert.ranges:
                begun = min(skip, length)
                skip -= begun
                for at in range(offset + begun, offset + length, _PIECE_BYTES):
                    n = min(_PIECE_BYTES, offset + length - at)
                    part.append(model.read_range(at, n))
            part.finish()
        finally:
            part.abandon()
        n_new, n_bytes = n_new + 1, n_bytes + expert.n_bytes
    progress(len(manifest.experts), len(manifest.experts))
    return n_new, n_bytes
