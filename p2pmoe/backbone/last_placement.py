"""The placement that the market said last, kept on disk for a start without it.

Signed in it are the price table, by the market, and each holder's record, by itself.
Who holds what is a hint: whoever does not hold an expert says so when asked for it. It
is written seconds after it changed, on a thread; a disk that refuses is told once.
"""

import logging
from pathlib import Path

import trio

from mobile_worker.errors import WorkerError
from mobile_worker.kept_messages import read_messages, write_messages
from mobile_worker.messages.market import Placement

__all__ = ["LastPlacement"]

log = logging.getLogger("p2pmoe.backbone")

_MAX_BYTES = 256 << 20
_PAUSE_S = 5.0


class LastPlacement:
    """See the module; `path` None keeps nothing."""

    def __init__(self, path: Path | None, manifest_hash: bytes) -> None:
        """Read what an earlier run of the same model left; blocking."""
        self._path = path
        self._changed = trio.Event()
        self.placement: Placement | None = None
        for message in read_messages(path, max_bytes=_MAX_BYTES) if path else ():
            if isinstance(message, Placement):
                is_ours = message.manifest_hash == manifest_hash
                self.placement = message if is_ours else None

    def said(self, placement: Placement) -> None:
        """Keep this one from now on."""
        self.placement = placement
        self._changed.set()

    async def run(self) -> None:
        """Write changes until cancelled."""
        path = self._path
        if path is None:
            return
        is_told = False
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            kept = [] if self.placement is None else [self.placement]
            try:
                await trio.to_thread.run_sync(write_messages, path, kept)
            except (OSError, WorkerError) as error:
                level = logging.INFO if is_told else logging.WARNING
                log.log(level, "the last placement is not kept: %s", error)
                is_told = True
            await trio.sleep(_PAUSE_S)
