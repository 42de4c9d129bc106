"""Shards of the served model by hash, for workers that ask: positioned reads.

A GET names a digest and a range; the bytes come straight from the model file, up to
one piece at a time, and are never read as a whole. What is not in the manifest is not
here. Blocking; run `blob` on a worker thread.
"""

from mobile_worker.messages.blobs import Blob, Get
from mobile_worker.shards.desk import answer_get
from mobile_worker.shards.errors import ShardCorrupt, ShardMissing
from mobile_worker.shards.manifest import Manifest
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import ModelFile

__all__ = ["ShardReader"]


class ShardReader:
    """Ranges of shards, and of the manifest itself, by digest."""

    def __init__(
        self, model_file: ModelFile, manifest: Manifest, manifest_digest: bytes
    ) -> None:
        """Serve the shards that `manifest` lists, from `model_file`."""
        self._file = model_file
        self._shards = {expert.digest.hex(): expert for expert in manifest.experts}
        self._whole = {manifest_digest.hex(): manifest.encode()}

    def blob(self, get: Get) -> Blob:
        """Return the answer to a GET; unknown digests and ranges are its errors."""
        return answer_get(get, self.read_range)

    def read_range(self, name: str, offset: int, length: int) -> tuple[int, bytes]:
        """Return (total bytes, bytes from `offset`) of a blob named in hex.

        Raises:
            ShardMissing: it is not of this model.
            ShardCorrupt: the model file was cut short.
        """
        whole = self._whole.get(name)
        if whole is not None:
            return len(whole), whole[offset : offset + length]
        shard = self._shards.get(name)
        if shard is None:
            raise ShardMissing(f"no shard {name[:16]} in this model")
        end = min(offset + length, shard.n_bytes)
        parts = []
        start = 0
        for file_offset, n_bytes in shard.ranges:
            first, last = max(offset, start), min(end, start + n_bytes)
            if first < last:
                parts.append(self._read(file_offset + first - start, last - first))
            start += n_bytes
        return shard.n_bytes, b"".join(parts)

    def _read(self, offset: int, n_bytes: int) -> bytes:
        try:
            return self._file.read_range(offset, n_bytes)
        except ModelFileError as error:
            raise ShardCorrupt(str(error)) from error
