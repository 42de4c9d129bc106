"""Routed experts of a model whose experts are not here, fetched one by one into memory.

`ExpertFetcher` reads one shard from the manifest's files, checks its hash and returns
it; nothing is written to the disk. `FetchedExperts` is an `ExpertFile` over it, so the
hot set can fetch what measured use says is worth keeping. Blocking, from any thread:
each fetch runs an event loop of its own, for its own time.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import httpx
import trio

from mobile_worker.arithmetic.errors import MatrixMalformed
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.expert_id import ExpertId
from mobile_worker.large_pages import weight_room
from mobile_worker.shards.errors import ShardUnavailable
from mobile_worker.shards.http_source import HttpSettings, HttpSource, open_client
from mobile_worker.shards.manifest import Manifest, ManifestExpert
from mobile_worker.shards.shard import check_expert, expert_weights
from p2pmoe.weights.errors import ModelFileError, NotHere
from p2pmoe.weights.expert_file import ExpertFile
from p2pmoe.weights.model_file import ModelFile

__all__ = ["ExpertFetcher", "FetchCount", "FetchedExperts"]

OpenClient = Callable[[HttpSettings], httpx.AsyncClient]


@dataclass(slots=True)
class FetchCount:
    """What was fetched by all who share it."""

    n_shards: int = 0
    n_bytes: int = 0
    n_failed: int = 0


class ExpertFetcher:
    """Reads shards of one manifest from its files; safe to use from threads."""

    def __init__(
        self,
        manifest: Manifest,
        settings: HttpSettings | None = None,
        *,
        open_client: OpenClient = open_client,
        count: FetchCount | None = None,
    ) -> None:
        """Fetch what `manifest` lists, and count it."""
        self.manifest = manifest
        self.count = count or FetchCount()
        self._settings = settings or HttpSettings()
        self._open_client = open_client
        self._entries = {entry.expert: entry for entry in manifest.experts}

    def hasty(self, *, silence_s: float, slowest_bytes_s: float) -> "ExpertFetcher":
        """Return one that tries once and waits no longer than this."""
        settings = replace(
            self._settings,
            max_failures=1,
            silence_s=silence_s,
            slowest_bytes_s=slowest_bytes_s,
        )
        return ExpertFetcher(
            self.manifest, settings, open_client=self._open_client, count=self.count
        )

    def shard(self, expert: ExpertId) -> memoryview:
        """Return an expert's shard, its hash checked.

        Raises:
            ShardUnavailable: no server gives it, or none gives it right.
            KeyError: the manifest does not list it.
        """
        entry = self._entries[expert]
        shard = weight_room(entry.n_bytes)
        try:
            trio.run(self._fetch, entry, shard)
        except ShardUnavailable:
            self.count.n_failed += 1
            raise
        self.count.n_shards += 1
        self.count.n_bytes += entry.n_bytes
        return shard.toreadonly()

    async def _fetch(self, entry: ManifestExpert, room: memoryview) -> None:
        async with self._open_client(self._settings) as client:
            source = HttpSource(client, self.manifest.files, self._settings)
            n_tries = max(len(file.urls) for file in self.manifest.files)
            for _ in range(n_tries):
                given_by = await _fill(source, entry, room)
                if hashlib.sha256(room).digest() == entry.digest:
                    return
                source.blame(given_by)
        raise ShardUnavailable(f"the servers send other bytes for {entry.expert}")


async def _fill(
    source: HttpSource, entry: ManifestExpert, room: memoryview
) -> set[str]:
    """Read an expert's ranges into `room`; return who gave them."""
    given_by: set[str] = set()
    at = 0

    def write(chunk: bytes) -> None:
        nonlocal at
        room[at : at + len(chunk)] = chunk
        at += len(chunk)

    for offset, n_bytes in entry.ranges:
        given_by |= await source.read(offset, n_bytes, write)
    return given_by


class FetchedExperts(ExpertFile):
    """The experts of a model of which only the base is here; see `ExpertFile`."""

    def __init__(
        self,
        model_file: ModelFile,
        fetcher: ExpertFetcher,
        took: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Fetch experts with `fetcher`; the header is that of `model_file`.

        `took` is told how many seconds each fetch took.
        """
        super().__init__(model_file)
        self.count = fetcher.count
        self._took = took
        self.path = model_file.path
        self._fetcher = fetcher
        manifest = fetcher.manifest
        self._layouts = {e.expert: manifest.layouts[e.layout] for e in manifest.experts}

    def shard(self, expert: ExpertId) -> memoryview:
        """Return an expert's shard; NotHere if no server gives it now."""
        start = time.monotonic()
        try:
            shard = self._fetcher.shard(expert)
        except (ShardUnavailable, KeyError) as exc:
            reason = f"expert {expert} cannot be fetched: {exc}"
            raise NotHere(self.path, reason) from exc
        self._took(time.monotonic() - start)
        return shard

    def weights(self, expert: ExpertId) -> ExpertWeights:
        """Fetch an expert's matrices and biases.

        Raises:
            NotHere: no server gives it now.
            ModelFileError: it holds no numbers.
            FormatUnsupported: it cannot be computed with.
        """
        shard = self.shard(expert)
        try:
            weights = expert_weights(shard, self._layouts[expert])
            check_expert(weights, expert)
        except MatrixMalformed as exc:
            raise ModelFileError(self.path, str(exc)) from exc
        return weights
