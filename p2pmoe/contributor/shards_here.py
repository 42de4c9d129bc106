"""The shards in a worker's folder: what lies there, and how it is removed.

Contract: the disk is the truth. Only files that the store itself would have written are
listed or removed (`mobile_worker.shards.store`); links and other files are left alone.
A worker that runs is asked to remove shards itself; here nobody may be using them.
"""

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ShardFile", "list_shards", "remove_shards"]

_NAME = re.compile(r"([0-9a-f]{64})\.(shard|part)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFile:
    """One file of the store, whole or a part of one."""

    digest: str
    is_whole: bool
    n_bytes: int
    written_us: int


def list_shards(folder: Path) -> list[ShardFile]:
    """Return what lies in a store's folder, newest first; none where there is none.

    Raises:
        OSError: it cannot be listed.
    """
    found = []
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return []
    for entry in entries:
        match = _NAME.fullmatch(entry.name)
        if match is None or not entry.is_file(follow_symlinks=False):
            continue
        status = entry.stat(follow_symlinks=False)
        found.append(
            ShardFile(
                digest=match[1],
                is_whole=match[2] == "shard",
                n_bytes=status.st_size,
                written_us=status.st_mtime_ns // 1000,
            )
        )
    return sorted(found, key=lambda each: (-each.written_us, each.digest))


def remove_shards(folder: Path, keep: Collection[str] = ()) -> tuple[int, int]:
    """Remove the shards and parts but those of `keep`; return files and bytes.

    Raises:
        OSError: one cannot be removed.
    """
    n_files = n_bytes = 0
    for each in list_shards(folder):
        if each.digest in keep:
            continue
        suffix = "shard" if each.is_whole else "part"
        (folder / f"{each.digest}.{suffix}").unlink(missing_ok=True)
        n_files += 1
        n_bytes += each.n_bytes
    return n_files, n_bytes
