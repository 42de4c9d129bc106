"""The leases that the market granted last, kept over a restart: whom to ask without it.

One LEASE a backbone and model, at most 16, the most recent last. Each carries the
backbone's own signed record and the price table that the market signed. Written by a
task a few seconds after a change; a disk that refuses is told once and costs nothing
but the memory.
"""

import logging
from pathlib import Path

import trio

from mobile_worker.errors import WorkerError
from mobile_worker.kept_messages import read_messages, write_messages
from mobile_worker.messages import Lease

__all__ = ["LastLeases"]

logger = logging.getLogger("p2pmoe.contribute")

_MAX_LEASES = 16
_MAX_BYTES = 16 << 20
_PAUSE_S = 2.0


class LastLeases:
    """See the module; `path` None keeps them in memory alone."""

    def __init__(self, path: Path | None) -> None:
        """Read what an earlier run left."""
        self._path = path
        self._changed = trio.Event()
        kept = [] if path is None else read_messages(path, max_bytes=_MAX_BYTES)
        self._leases = {
            (lease.backbone, lease.manifest_hash): lease
            for lease in kept
            if isinstance(lease, Lease)
        }

    @property
    def leases(self) -> tuple[Lease, ...]:
        """The leases, the most recent last."""
        return tuple(self._leases.values())

    def granted(self, lease: Lease) -> None:
        """Remember a lease that was taken."""
        key = (lease.backbone, lease.manifest_hash)
        if self._leases.get(key) == lease:
            return
        self._leases.pop(key, None)
        self._leases[key] = lease
        while len(self._leases) > _MAX_LEASES:
            del self._leases[next(iter(self._leases))]
        self._changed.set()

    async def run(self) -> None:
        """Write changes until cancelled."""
        path = self._path
        if path is None:
            return
        told = False
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            try:
                await trio.to_thread.run_sync(write_messages, path, self.leases)
            except (OSError, WorkerError) as error:
                level = logging.INFO if told else logging.WARNING
                logger.log(level, "the last leases are not kept: %s", error)
                told = True
            await trio.sleep(_PAUSE_S)
