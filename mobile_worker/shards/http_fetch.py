"""Shards from the files that a manifest names: read by ranges and resumed.

The counterpart of fetch.py, which asks peers: bytes go to the store's part file as they
come, so that a fetch cut off at any point goes on there, and the store checks the hash.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Self

import trio

from mobile_worker.shards.manifest import Manifest, ManifestExpert
from mobile_worker.shards.store import Incoming

if TYPE_CHECKING:
    import httpx

    from mobile_worker.shards.http_source import HttpSource

__all__ = ["ModelSources", "fill_from_files", "ranges_from"]

_MAX_MODELS = 64
_CLOSE_S = 1.0


class ModelSources:
    """The sources of the models that a worker holds experts of, by manifest hash.

    A context. The client is loaded and opened with the first source: most workers get
    all that they need from peers.
    """

    def __init__(self, *, loopback: bool) -> None:
        """Read https, and servers on this machine only if `loopback` allows it."""
        self._loopback = loopback
        self._client: httpx.AsyncClient | None = None
        self._known: dict[bytes, HttpSource] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            with trio.CancelScope(shield=True), trio.move_on_after(_CLOSE_S):
                await self._client.aclose()

    def of(self, name: bytes, manifest: Manifest) -> "HttpSource | None":
        """Return where a model's bytes can be had; None if its manifest names nothing.

        What servers refused is remembered for as long as the source is.
        """
        if not manifest.files:
            return None
        from mobile_worker.shards.http_source import (  # noqa: PLC0415 - see the class
            HttpSettings,
            HttpSource,
            open_client,
        )

        settings = HttpSettings(loopback=self._loopback)
        if self._client is None:
            self._client = open_client(settings)
        if name not in self._known:
            while len(self._known) >= _MAX_MODELS:
                del self._known[next(iter(self._known))]
            self._known[name] = HttpSource(self._client, manifest.files, settings)
        return self._known[name]


def ranges_from(
    ranges: Sequence[tuple[int, int]], position: int
) -> Iterator[tuple[int, int]]:
    """Return what is left of ranges (offset, bytes) behind their first bytes."""
    for offset, n_bytes in ranges:
        skipped = min(position, n_bytes)
        position -= skipped
        if skipped < n_bytes:
            yield offset + skipped, n_bytes - skipped


async def fill_from_files(
    part: Incoming,
    source: "HttpSource",
    expert: ManifestExpert,
    came: Callable[[int], None] = lambda _: None,
) -> set[str]:
    """Write what a part lacks; `came` is told how many bytes come.

    Returns the addresses that gave them.

    Raises:
        ShardUnavailable: no server gives it.
        StoreFull, StoreUnusable: the store's folder.
    """

    def write(chunk: bytes) -> None:
        part.append(chunk)
        came(len(chunk))

    given_by: set[str] = set()
    for offset, n_bytes in list(ranges_from(expert.ranges, part.position)):
        given_by |= await source.read(offset, n_bytes, write)
    return given_by
