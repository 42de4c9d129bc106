"""Where this worker gets shards from, in which order.

    1  the model's public files, if its manifest names any: made to be read by many
    2  our relays' /blob/: near, and filled once for all
    3  other workers that hold it, as the backbone names them
    4  the backbone: its uplink serves everybody's tokens

Each goes on where the one before ended. Who must pay for the bytes is asked first:
`Allowance` may say that no more are to be fetched now, and is told of what comes.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import trio

from mobile_worker.contribute.leases import Want
from mobile_worker.errors import WorkerError
from mobile_worker.links.node import Node
from mobile_worker.serve.held import HeldModel
from mobile_worker.shards.desk import BlobDesk
from mobile_worker.shards.errors import ShardUnavailable
from mobile_worker.shards.fetch import FetchSettings
from mobile_worker.shards.http_fetch import ModelSources
from mobile_worker.shards.manifest import ManifestExpert
from mobile_worker.shards.relay_blobs import RelayBlobs
from mobile_worker.shards.sources import (
    Distrust,
    FilesSource,
    OnePeer,
    ShardSource,
    fetch_from_sources,
)
from mobile_worker.shards.store import Incoming, ShardStore
from relay.keys import PeerId, short_id

if TYPE_CHECKING:
    from mobile_worker.shards.http_source import HttpSource

__all__ = ["Allowance", "FinderParts", "OtherHolders", "ShardFinder"]

logger = logging.getLogger("p2pmoe.contribute")

_ASK_S = 5.0  # for the names of holders
_HOLDER_FAILURES = 1  # then the next one
_LOOK_S = 5.0


class Allowance(Protocol):
    """How many bytes this worker may fetch."""

    def may_fetch(self) -> bool:
        """Say whether more may be fetched now."""
        ...

    def fetched(self, n_bytes: int) -> None:
        """Take note of bytes that came by HTTP; the node counts those of its links."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FinderParts:
    """What finding shards works with; `sources` and `relays` None: not asked."""

    node: Node
    store: ShardStore
    desk: BlobDesk
    settings: FetchSettings
    allowance: Allowance
    sources: ModelSources | None = None
    relays: RelayBlobs | None = None


class ShardFinder:
    """Brings shards into the store; see the module."""

    def __init__(self, parts: FinderParts) -> None:
        """Trust everybody."""
        self._parts = parts
        self._distrust = Distrust()
        self.liars: set[PeerId] = set()  # holders that are not asked any more

    async def fetch(self, want: Want, model: HeldModel, expert: ManifestExpert) -> None:
        """Bring an expert's shard into the store.

        Raises:
            ShardUnavailable: no source gives it now.
            ShardCorrupt: all its bytes came and are other ones.
            StoreFull, StoreUnusable: the store's folder or budget.
        """
        parts = self._parts
        if not parts.allowance.may_fetch():
            await trio.sleep(_LOOK_S)
            raise ShardUnavailable("no more may be fetched today")
        await fetch_from_sources(
            parts.store,
            expert,
            self._sources(want, model),
            self._distrust,
            came=parts.allowance.fetched,
        )

    def _sources(self, want: Want, model: HeldModel) -> Sequence[ShardSource]:
        parts = self._parts
        sources: list[ShardSource] = []
        public = self._public(want, model)
        if public is not None:
            sources.append(FilesSource(public))
        if parts.relays is not None:
            sources += parts.relays.sources
        backbone = parts.desk.source(want.backbone)
        return (
            *sources,
            OtherHolders(parts, want.backbone, self.liars),
            OnePeer(backbone, parts.settings),
        )

    def _public(self, want: Want, model: HeldModel) -> "HttpSource | None":
        sources = self._parts.sources
        if sources is None:
            return None
        return sources.of(want.manifest_hash, model.manifest)


class OtherHolders:
    """The workers that a backbone names as holders of a shard, as one source."""

    name = "other holders"

    def __init__(
        self, parts: FinderParts, backbone: PeerId, liars: set[PeerId]
    ) -> None:
        """Ask `backbone` who has what; `liars` are passed over."""
        self._parts = parts
        self._backbone = backbone
        self._liars = liars
        self._givers: set[PeerId] = set()

    async def fill(
        self, part: Incoming, expert: ManifestExpert, _came: Callable[[int], None]
    ) -> None:
        """Write the part's missing bytes, as far as anybody gives them."""
        settings = FetchSettings(
            window=self._parts.settings.window,
            piece_timeout_s=self._parts.settings.piece_timeout_s,
            max_failures=_HOLDER_FAILURES,
        )
        for holder in await self._named(expert.digest):
            before = part.position
            source = OnePeer(self._parts.desk.source(holder), settings)
            try:
                await source.fill(part, expert, _came)
            except ShardUnavailable as error:
                logger.info("holder %s: %s", short_id(holder), error)
            if part.position > before:
                self._givers.add(holder)
            if part.position == part.n_bytes:
                return
        raise ShardUnavailable("no other worker gives it")

    def blame(self) -> None:
        """Ask those that gave it nothing more."""
        self._liars |= self._givers

    async def _named(self, digest: bytes) -> list[PeerId]:
        parts = self._parts
        named: list[PeerId] = []
        with trio.move_on_after(_ASK_S):
            for record in await parts.desk.holders(self._backbone, digest):
                peer = record.peer_id
                if peer in self._liars or peer == parts.node.peer_id:
                    continue
                try:
                    parts.node.learn(record)
                except WorkerError as error:
                    logger.info("holder %s: %s", short_id(peer), error)
                    continue
                named.append(peer)
        return named
