"""Brings into the relay's folder of shards what leases wait for.

So a backbone with a slow uplink gives a shard once, not to every worker that is leased
it. Each shard is fetched by one task, two at a time, through the market's own node; who
asks meanwhile waits a little, then comes again. What the folder has no room for, what
nobody gives, and what no lease waits for is not asked for again for a while.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from mobile_worker.shards.desk import BlobDesk
from mobile_worker.shards.errors import ShardError, ShardUnavailable
from mobile_worker.shards.fetch import FetchSettings, fetch_shard
from mobile_worker.shards.store import ShardStore
from p2pmoe.market.shard_holders import Sought
from p2pmoe.network.blobs import BlobPages, Filled
from relay.pages import PageHandler

__all__ = ["BlobFilling", "Blobs", "Seek", "open_blobs"]

Seek = Callable[[bytes], Sought | None]

_LOG = logging.getLogger("p2pmoe.network")
_N_TASKS: Final = 2
_MAX_WAITING: Final = 64
_MAX_MISSES: Final = 4096
_PATIENCE_S: Final = 2.0  # meanwhile its connection serves nobody else
_MISS_S: Final = 5.0
_SETTINGS: Final = FetchSettings(piece_timeout_s=5.0, max_failures=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blobs:
    """The pages of a relay that hands out shards, and what brings in more of them."""

    pages: Mapping[str, PageHandler] = field(default_factory=dict)
    filling: "BlobFilling | None" = None


def open_blobs(folder: Path, max_bytes: int) -> Blobs:
    """Open a folder of at most `max_bytes` of shards; 0 hands out none.

    Raises:
        StoreUnusable: the folder cannot be made, listed or written.
    """
    if not max_bytes:
        return Blobs()
    store = ShardStore(folder, max_bytes=max_bytes)
    filling = BlobFilling(store)
    return Blobs(pages=BlobPages(store, filling.fill).pages, filling=filling)


class BlobFilling:
    """See the module. `run` does the work once `attach` has named the market."""

    def __init__(self, store: ShardStore) -> None:
        """Fill `store`."""
        self._store = store
        self._market: tuple[Seek, BlobDesk] | None = None
        self._under_way: dict[str, trio.Event] = {}
        self._misses: OrderedDict[str, float] = OrderedDict()  # until when
        # Full: whoever asks is told to come again.
        self._wanted_in, self._wanted_out = trio.open_memory_channel[
            tuple[str, Sought]
        ](_MAX_WAITING)

    def attach(self, seek: Seek, desk: BlobDesk) -> None:
        """Ask `seek` who has a shard, and those peers through `desk`."""
        self._market = seek, desk

    async def fill(self, name: str) -> Filled:
        """Have a shard brought in; wait for it a little."""
        if name not in self._under_way:
            refused = self._begin(name)
            if refused is not None:
                return refused
        event = self._under_way[name]
        with trio.move_on_after(_PATIENCE_S):
            await event.wait()
            return Filled.HERE if self._store.has(name) else Filled.NO
        return Filled.UNDER_WAY

    async def run(self) -> None:
        """Fetch what is asked for until cancelled."""
        async with trio.open_nursery() as nursery:
            for _ in range(_N_TASKS):
                nursery.start_soon(self._work)

    def _begin(self, name: str) -> Filled | None:
        """Queue a fetch; or return why there is none."""
        now = trio.current_time()
        if self._market is None or now < self._misses.get(name, now):
            return Filled.NO
        seek, _ = self._market
        sought = seek(bytes.fromhex(name))
        if sought is None:
            self._missed(name)
            return Filled.NO
        try:
            self._wanted_in.send_nowait((name, sought))
        except trio.WouldBlock:
            return Filled.UNDER_WAY
        self._under_way[name] = trio.Event()
        return None

    async def _work(self) -> None:
        while True:
            name, sought = await self._wanted_out.receive()
            try:
                if not await self._fetch(name, sought):
                    self._missed(name)
            finally:
                self._under_way.pop(name).set()

    async def _fetch(self, name: str, sought: Sought) -> bool:
        if self._market is None:
            return False
        _, desk = self._market
        for peer in sought.peers:
            try:
                await fetch_shard(
                    self._store,
                    desk.source(peer),
                    bytes.fromhex(name),
                    sought.n_bytes,
                    settings=_SETTINGS,
                )
            except (ShardError, ShardUnavailable) as error:
                _LOG.info("shard %s for /blob/: %s", name[:8], error)
            else:
                return True
        return False

    def _missed(self, name: str) -> None:
        """Note that asking for this is in vain for a while."""
        self._misses[name] = trio.current_time() + _MISS_S
        self._misses.move_to_end(name)
        while len(self._misses) > _MAX_MISSES:
            self._misses.popitem(last=False)
