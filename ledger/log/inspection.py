"""Read what comes into a log: is each entry there, and what an entry must be?

Contract: each entry after a size must have the hash that the tree, under a given root,
has for it; what was only damaged on the way is `LogUnavailable`. An entry that the log
did commit to, and that is no voucher of its network signed by worker and backbone, is
`LogRefused`: it convicts the log. Money is not looked at: `p2pmoe ledger verify` does.
"""

from ledger.errors import LogRefused, LogUnavailable, ProofRefused, RemoteError
from ledger.log.checkpoint import Checkpoint
from ledger.log.entry import LogEntry, entry_hash
from ledger.log.folder import LogReader
from ledger.log.tiles import TILE_WIDTH, tiles_of

__all__ = ["inspect_entries"]


def inspect_entries(
    log: LogReader, old_size: int, head: Checkpoint, network: bytes
) -> int:
    """Check every entry of a log from `old_size` on; return how many.

    Args:
        log: the log's files.
        old_size: entries that were looked at before.
        head: verified, of the log now.
        network: 32-byte id that each voucher must name.

    Raises:
        LogRefused: the log has an entry that it must not have.
        LogUnavailable, FormatRefused: an entry cannot be read, or is damaged.
    """
    try:
        tree = log.tree(head.size, head.root)
        for tile in tiles_of(head.size, old_size):
            if tile.level:
                break
            for index, raw in enumerate(log.entries(tile), tile.index * TILE_WIDTH):
                if index < old_size:
                    continue
                if entry_hash(raw) != tree.leaf(index):
                    raise LogUnavailable(f"log: {tile.bundle_path} is damaged")
                _check(index, raw, network)
    except ProofRefused as exc:
        raise LogUnavailable(f"log: {exc}") from exc
    return head.size - old_size


def _check(index: int, raw: bytes, network: bytes) -> None:
    try:
        voucher = LogEntry.parse(raw).signed.verified()
    except RemoteError as exc:
        raise LogRefused(f"log entry {index}: {exc}") from exc
    if voucher.network != network:
        raise LogRefused(f"log entry {index} is of another network")
