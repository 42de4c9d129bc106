"""From leased to held: manifest, shards, verification, memory.

A few tasks take what is leased and not yet in memory, one expert each: read it from the
store, or fetch it by hash (shard_finding.py says from where); verify it, and take it
into memory. What nobody gives is asked for again with growing pauses for as long as
the lease lasts; a shard on disk that is not what its name says is fetched anew. What
cannot be held here at all (no room, a format not known) is given back to the market
with the reason. Memory is promised before a fetch begins, so that experts under way
together never exceed it (faults B15). A folder that cannot be used ends the worker.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import trio

from mobile_worker.arithmetic.errors import ArithmeticRefused
from mobile_worker.contribute.leases import LeaseBook, Want
from mobile_worker.contribute.shard_finding import ShardFinder
from mobile_worker.errors import WorkerError
from mobile_worker.expert_id import ExpertId
from mobile_worker.links.service_watch import ServiceWatch
from mobile_worker.serve.held import HeldExperts, HeldModel, MemoryExhausted
from mobile_worker.shards.desk import BlobDesk
from mobile_worker.shards.errors import (
    ShardCorrupt,
    ShardError,
    ShardMissing,
    ShardUnavailable,
    StoreFull,
    StoreUnusable,
)
from mobile_worker.shards.fetch import FetchSettings, fetch_blob
from mobile_worker.shards.manifest import (
    MAX_MANIFEST_BYTES,
    ManifestError,
    ManifestExpert,
    parse_manifest,
)
from mobile_worker.shards.shard import ShardMisfit
from mobile_worker.shards.store import ShardStore
from relay.keys import PeerId

__all__ = ["GatherParts", "Gatherer"]

logger = logging.getLogger("p2pmoe.contribute")

_N_TASKS = 4
_FIRST_PAUSE_S = 0.5
_MAX_PAUSE_S = 15.0
_MAX_CORRUPT = 5  # from one source after the other
_UNHOLDABLE = (MemoryExhausted, StoreFull, ArithmeticRefused, ShardMisfit)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherParts:
    """What gathering works with.

    give_back: told (lease, experts, reason) of what cannot be held here.
    """

    store: ShardStore
    held: HeldExperts
    leases: LeaseBook
    desk: BlobDesk
    market: PeerId
    give_back: Callable[[bytes, tuple[ExpertId, ...], str], None]
    settings: FetchSettings
    finder: ShardFinder
    watch: ServiceWatch


class Gatherer:
    """Brings leased experts into memory; see the module."""

    def __init__(self, parts: GatherParts) -> None:
        """Begin with nothing under way."""
        self.problem = ""  # why it does not get on, for the view
        self.is_paused = False
        self._parts = parts
        self._under_way: set[tuple[bytes, ExpertId]] = set()
        self._promised_bytes = 0
        self._told: set[type[Exception]] = set()
        self._manifests = trio.Lock()
        self._changed = trio.Event()

    def leases_changed(self) -> None:
        """Drop what is no longer leased, and look for what is to be fetched."""
        parts = self._parts
        kept: set[str] = set()
        for name in parts.held.names() | parts.leases.manifests():
            experts = parts.leases.experts_of(name)
            model = parts.held.model(name)
            if experts:
                kept.add(name.hex())
            if model is not None:
                known = [model.experts[e] for e in experts if e in model.experts]
                kept.update(expert.digest.hex() for expert in known)
                parts.held.drop(name, experts)
        parts.store.keep(kept)
        self._changed.set()
        self._changed = trio.Event()

    def pause(self, *, is_paused: bool) -> None:
        """Begin no further fetch, or go on; what is under way is finished."""
        if is_paused != self.is_paused:
            self.is_paused = is_paused
            self._changed.set()
            self._changed = trio.Event()

    async def run(self) -> None:
        """Gather until cancelled.

        Raises:
            StoreUnusable: the folder of shards cannot be used.
        """
        async with trio.open_nursery() as nursery:
            for _ in range(_N_TASKS):
                nursery.start_soon(self._gather)

    async def _gather(self) -> None:
        while True:
            want = self._next()
            if want is None:
                await self._changed.wait()
                continue
            key = (want.manifest_hash, want.expert)
            self._under_way.add(key)
            try:
                await self._bring(want)
            finally:
                self._under_way.discard(key)

    def _next(self) -> Want | None:
        if self.is_paused:
            return None
        wants = self._parts.leases.wants()
        free = (w for w in wants if (w.manifest_hash, w.expert) not in self._under_way)
        return next(free, None)

    async def _bring(self, want: Want) -> None:
        """Bring one expert in, or give it back, or stop when it is not leased."""
        pause_s, n_corrupt = _FIRST_PAUSE_S, 0
        while self._parts.leases.is_wanted(want.manifest_hash, want.expert):
            if self.is_paused:
                return
            try:
                await self._try(want)
            except _UNHOLDABLE as error:
                self._give_back(want, str(error), type(error))
                return
            except StoreUnusable:
                raise
            except (ManifestError, ShardError, ShardUnavailable) as error:
                n_corrupt += isinstance(error, ShardCorrupt)
                if isinstance(error, ManifestError):
                    self._give_back(want, str(error), type(error))
                    return
                if n_corrupt >= _MAX_CORRUPT:
                    self._give_back(want, "its bytes cannot be verified", type(error))
                    return
                self.problem = str(error)
                logger.info("expert %s: %s", want.expert, error)
                with trio.move_on_after(pause_s):
                    await self._changed.wait()
                pause_s = min(2 * pause_s, _MAX_PAUSE_S)
            else:
                self.problem = ""
                return

    async def _try(self, want: Want) -> None:
        parts = self._parts
        model = await self.model(want)
        expert = model.experts.get(want.expert)
        if expert is None:
            raise ManifestError(f"the model has no expert {want.expert}")
        parts.held.check_room(self._promised_bytes + expert.n_bytes)
        parts.held.check_width(model.manifest.layouts[expert.layout])
        self._promised_bytes += expert.n_bytes
        try:
            shard = await self._shard(want, model, expert)
        finally:
            self._promised_bytes -= expert.n_bytes
        if not parts.leases.is_wanted(want.manifest_hash, want.expert):
            return
        held = parts.held.learn(want.manifest_hash, model.manifest)
        parts.held.hold(held, want.expert, shard)
        parts.leases.now_held(want.manifest_hash, want.expert)

    async def _shard(
        self, want: Want, model: HeldModel, expert: ManifestExpert
    ) -> bytes:
        store = self._parts.store
        name = expert.digest.hex()
        if store.has(name):
            try:
                return await trio.to_thread.run_sync(store.read, name)
            except (ShardCorrupt, ShardMissing) as error:
                logger.warning("fetched anew: %s", error)
        await self._parts.finder.fetch(want, model, expert)
        return await trio.to_thread.run_sync(store.read, name)

    async def model(self, want: Want) -> HeldModel:
        """Return the model of what is wanted, its manifest fetched if need be.

        Raises:
            ShardUnavailable: nobody gives the manifest.
            ManifestError: it is none.
        """
        async with self._manifests:
            known = self._parts.held.model(want.manifest_hash)
            if known is not None:
                return known
            blob = await self._manifest(want)
            manifest = await trio.to_thread.run_sync(parse_manifest, blob)
            model = self._parts.held.learn(want.manifest_hash, manifest)
        self.leases_changed()
        return model

    async def _manifest(self, want: Want) -> bytes:
        store, name = self._parts.store, want.manifest_hash.hex()
        if store.has(name):
            try:
                return await trio.to_thread.run_sync(store.read, name)
            except (ShardCorrupt, ShardMissing) as error:
                logger.warning("manifest fetched anew: %s", error)
        try:
            first = want.backbone if self._parts.watch.is_away else self._parts.market
            blob = await self._manifest_of(first, want)
        except ShardUnavailable:  # the backbone's own manifest: it has it, too
            blob = await self._manifest_of(want.backbone, want)
        await trio.to_thread.run_sync(_keep, store, name, blob)
        return blob

    async def _manifest_of(self, peer: PeerId, want: Want) -> bytes:
        return await fetch_blob(
            self._parts.desk.source(peer),
            want.manifest_hash,
            max_bytes=MAX_MANIFEST_BYTES,
            settings=self._parts.settings,
        )

    def _give_back(self, want: Want, reason: str, kind: type[Exception]) -> None:
        """Give an expert back; people hear of the first of each kind, not of all."""
        level = logging.INFO if kind in self._told else logging.WARNING
        self._told.add(kind)
        logger.log(level, "expert %s given back: %s", want.expert, reason)
        self._parts.leases.release(want.lease, [want.expert])
        self._parts.give_back(want.lease, (want.expert,), reason)
        self.leases_changed()


def _keep(store: ShardStore, name: str, blob: bytes) -> None:
    """Keep a manifest in the store, so that a restart need not fetch it."""
    try:
        part = store.begin(name, len(blob))
        try:
            part.append(blob[part.position :])
            part.finish()
        finally:
            part.abandon()
    except StoreUnusable:
        raise
    except WorkerError as error:
        logger.info("the manifest is not kept: %s", error)
