"""One shard from several sources in turn, with one part that each of them goes on with.

A source fills a part as far as it gets; where it ends, the next one begins. What came
is right only if its hash is: if not, the part is gone, and whoever gave some of it is
asked last for this shard from then on, so that the next try comes from others as far
as there are others. Where one source alone gave all of it, it knows that it lied.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import trio

from mobile_worker.shards.desk import PeerSource
from mobile_worker.shards.errors import ShardCorrupt, ShardUnavailable
from mobile_worker.shards.fetch import FetchSettings, fill_part
from mobile_worker.shards.http_fetch import fill_from_files
from mobile_worker.shards.manifest import ManifestExpert
from mobile_worker.shards.store import Incoming, ShardStore

if TYPE_CHECKING:
    from mobile_worker.shards.http_source import HttpSource

__all__ = ["Distrust", "FilesSource", "OnePeer", "ShardSource", "fetch_from_sources"]

_MAX_SHARDS = 4096
_MAX_REASON_CHARS = 300


class ShardSource(Protocol):
    """Where a shard, or a part of it, can be had."""

    @property
    def name(self) -> str:
        """What it is called; another source has another name."""
        ...

    async def fill(
        self, part: Incoming, expert: ManifestExpert, came: Callable[[int], None]
    ) -> None:
        """Write the part's missing bytes, all of them or as many as there are.

        `came` is told how many bytes have come, again and again, unless they came over
        the node's own links, which are counted there.

        Raises:
            ShardUnavailable: it gives no more; the part holds what it gave.
        """
        ...

    def blame(self) -> None:
        """Take note that all that was given last came from here and was wrong."""
        ...


class OnePeer:
    """A peer that is asked by GET, such as the backbone."""

    def __init__(self, source: PeerSource, settings: FetchSettings) -> None:
        """Ask it as patiently as `settings` say."""
        self.name = f"peer {source.peer.hex()[:16]}"
        self._source = source
        self._settings = settings

    async def fill(
        self, part: Incoming, _expert: ManifestExpert, _came: Callable[[int], None]
    ) -> None:
        """Write the part's missing bytes."""
        await fill_part(part, self._source, settings=self._settings)

    def blame(self) -> None:
        """Do nothing: the order of sources is enough."""


class FilesSource:
    """The model's public files."""

    name = "the model's files"

    def __init__(self, source: "HttpSource") -> None:
        """Read them through `source`."""
        self._source = source
        self._given_by: set[str] = set()

    async def fill(
        self, part: Incoming, expert: ManifestExpert, came: Callable[[int], None]
    ) -> None:
        """Write the part's missing bytes."""
        self._given_by = await fill_from_files(part, self._source, expert, came)

    def blame(self) -> None:
        """Ask those servers last from now on."""
        self._source.blame(self._given_by)


class Distrust:
    """How often a source had a part in wrong bytes, by shard; bounded."""

    def __init__(self) -> None:
        """Trust everybody."""
        self._blamed: OrderedDict[bytes, Counter[str]] = OrderedDict()

    def order(self, digest: bytes, sources: Sequence[ShardSource]) -> list[ShardSource]:
        """Return the sources in the order to ask them; at equal blame, as given."""
        blamed = self._blamed.get(digest, Counter())
        return sorted(sources, key=lambda source: blamed[source.name])

    def blame(self, digest: bytes, sources: Sequence[ShardSource]) -> None:
        """Note whose bytes were, together, not the shard."""
        self._blamed.setdefault(digest, Counter()).update(s.name for s in sources)
        self._blamed.move_to_end(digest)
        while len(self._blamed) > _MAX_SHARDS:
            self._blamed.popitem(last=False)


async def fetch_from_sources(
    store: ShardStore,
    expert: ManifestExpert,
    sources: Sequence[ShardSource],
    distrust: Distrust,
    *,
    came: Callable[[int], None] = lambda _: None,
) -> None:
    """Bring a shard into the store; `came` is told of bytes as they come by HTTP.

    Raises:
        ShardUnavailable: no source gives the rest; the part stays, to be resumed.
        ShardCorrupt: all bytes came and are not this shard; the part is removed.
        StoreFull, StoreUnusable: the store's folder or budget.
    """
    name = expert.digest.hex()
    if store.has(name):
        return
    part = await trio.to_thread.run_sync(store.begin, name, expert.n_bytes)
    was_begun = part.position > 0
    givers: list[ShardSource] = []
    reasons: dict[str, None] = {}
    try:
        for source in distrust.order(expert.digest, sources):
            before = part.position
            try:
                await source.fill(part, expert, came)
            except ShardUnavailable as error:
                reasons[str(error)] = None
            if part.position > before:
                givers.append(source)
            if part.position == expert.n_bytes:
                break
        else:
            told = "; ".join(reasons) or "nobody has it"
            raise ShardUnavailable(told[:_MAX_REASON_CHARS])
        await trio.to_thread.run_sync(part.finish)
    except ShardCorrupt:
        distrust.blame(expert.digest, givers)
        if len(givers) == 1 and not was_begun:
            givers[0].blame()
        raise
    finally:
        part.abandon()
