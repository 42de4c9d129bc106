"""Errors of the shard store and of fetching, leaves of `mobile_worker.errors`.

    LocalError
      ShardError               a shard, or its folder, cannot be used
        BadDigest              a text that is no SHA-256 in lower-case hex
        ShardMissing           the store does not hold it
        ShardCorrupt           the bytes are not those the digest names
        StoreFull              no room within the budget, or on the disk
        StoreUnusable          the folder cannot be read or written
    RemoteError
      ShardUnavailable         no source gave the shard
        SourceRefused          a server will never give these bytes
        SourceBroke            a server did not give them this time

Messages may name local folders: they are for this machine's user and are never sent
to a peer (a peer gets a `BlobError` code, faults B06).
"""

from mobile_worker.errors import LocalError, RemoteError

__all__ = [
    "BadDigest",
    "ShardCorrupt",
    "ShardError",
    "ShardMissing",
    "ShardUnavailable",
    "SourceBroke",
    "SourceRefused",
    "StoreFull",
    "StoreUnusable",
]


class ShardError(LocalError):
    """A shard, or the folder that holds shards, cannot be used."""


class BadDigest(ShardError):
    """A digest is not 64 lower-case hexadecimal digits."""


class ShardMissing(ShardError):
    """The store does not hold this shard."""


class ShardCorrupt(ShardError):
    """The bytes at hand are not the ones the digest names."""


class StoreFull(ShardError):
    """The shard fits neither the budget nor, perhaps, the disk."""

    advice = "raise --disk, free some space, or name another folder with --data"


class StoreUnusable(ShardError):
    """The folder cannot be made, read or written."""

    advice = "name a folder that can be written with --data"


class ShardUnavailable(RemoteError):
    """No source gave the shard in the number of tries allowed."""


class SourceRefused(ShardUnavailable):
    """A server answers so that it need not be asked again."""


class SourceBroke(ShardUnavailable):
    """A server broke off, was silent, or asks to come later."""

    def __init__(self, message: str, *, retry_s: float = 0.0) -> None:
        """Say what happened; ask again in `retry_s` at the earliest."""
        super().__init__(message)
        self.retry_s = retry_s
