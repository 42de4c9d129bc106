"""Fetches a model's base: every piece that is not in its file yet, checked, resumed.

A few tasks take the missing pieces in order; a piece is held in memory until its hash
is known and only then written, so the file never holds a byte that is not the model's.
What was written stays: a fetch that was cut off, by the network or by kill -9, begins
the next time with what is missing. Pieces that come wrong are asked of another mirror,
a few times. Disk and hashing run on threads.
"""

import logging
import shutil
from collections import deque
from collections.abc import Callable
from pathlib import Path

import trio

from mobile_worker.shards.errors import ShardUnavailable
from mobile_worker.shards.http_source import HttpSource
from mobile_worker.shards.manifest import Manifest
from p2pmoe.errors import ConfigurationError
from p2pmoe.weights.base_file import BaseFile

__all__ = ["Told", "fetch_base"]

log = logging.getLogger("p2pmoe.backbone")

Told = Callable[[str, float], None]  # what is being done, and its share done

_N_TASKS = 4
_MAX_WRONG = 3  # times that one piece may come wrong


async def fetch_base(
    path: Path, manifest: Manifest, source: HttpSource, told: Told
) -> None:
    """Complete the file at `path`; does nothing but look if it is whole.

    Raises:
        ShardUnavailable: no server gives a piece, or none gives it right.
        ConfigurationError: the disk has no room for it.
        OSError: the file cannot be written.
    """
    base = await trio.to_thread.run_sync(BaseFile, path, manifest)
    with base:

        def looked(done: int, total: int) -> None:
            told("checking the base", done / max(1, total))

        missing = await trio.to_thread.run_sync(base.missing, looked)
        if not missing:
            return
        n_bytes = sum(base.pieces[number].n_bytes for number in missing)
        _check_room(path, n_bytes)
        log.info(
            "fetching %.1f of %.1f MiB that are no experts",
            n_bytes / (1 << 20),
            base.n_bytes / (1 << 20),
        )
        await _Fetch(base, source, told).run(missing)
        await trio.to_thread.run_sync(base.sync)


def _check_room(path: Path, n_bytes: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if n_bytes > free:
        raise ConfigurationError(
            f"the model without its experts needs {n_bytes / (1 << 20):.0f} MiB more "
            f"in {path.parent}, which has {free / (1 << 20):.0f} MiB free",
            advice="free some space, or name another folder with --data",
        )


class _Fetch:
    """The pieces that are still to come."""

    def __init__(self, base: BaseFile, source: HttpSource, told: Told) -> None:
        self._base = base
        self._source = source
        self._told = told
        self._left = 0

    async def run(self, missing: list[int]) -> None:
        waiting = deque(missing)
        self._left = sum(self._base.pieces[number].n_bytes for number in missing)
        failed: list[Exception] = []

        async def take() -> None:
            try:
                while waiting:
                    await self._piece(waiting.popleft())
            except Exception as error:  # noqa: BLE001 - raised below, alone
                failed.append(error)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for _ in range(_N_TASKS):
                nursery.start_soon(take)
        if failed:
            raise failed[0]

    async def _piece(self, number: int) -> None:
        piece = self._base.pieces[number]
        for _ in range(_MAX_WRONG):
            body = bytearray()
            extend, put = body.extend, self._base.put
            given_by = await self._source.read(piece.offset, piece.n_bytes, extend)
            if await trio.to_thread.run_sync(put, number, bytes(body)):
                self._left -= piece.n_bytes
                self._told("fetching the base", 1 - self._left / self._base.n_bytes)
                return
            log.warning("the piece at %d came as other bytes", piece.offset)
            self._source.blame(given_by)
        raise ShardUnavailable(
            f"the servers send other bytes at {piece.offset} than the manifest names"
        )
