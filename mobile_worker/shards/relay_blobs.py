"""Shards that a relay hands out under /blob/, as a source.

One connection a relay, one shard after the other; what the relay does not have now, or
is too busy for, is had elsewhere. A relay that cannot be asked, or has never had what
it was asked for, is left alone for a while: most relays of large models hold little.
"""

from collections.abc import Callable, Sequence
from typing import Final, Self

import trio

from mobile_worker.shards.errors import ShardUnavailable, SourceBroke, SourceRefused
from mobile_worker.shards.http_range import FileRange, RangeBody, check_answer
from mobile_worker.shards.manifest import ManifestExpert
from mobile_worker.shards.store import Incoming
from relay.endpoint import Endpoint
from relay.errors import RelayError
from relay.page_client import PageClient

__all__ = ["RelayBlobs", "RelaySource"]

_MAX_RELAYS: Final = 2
_QUIET_S: Final = 60.0
_MAX_MISSES: Final = 3  # in a row
_MAX_TRIES: Final = 60  # some minutes: the relay says so only while bytes come
_PATIENCE_S: Final = 30.0  # and longer by what comes
_SLOWEST_BYTES_S: Final = 16_384.0
_MAX_PAUSE_S: Final = 5.0


class RelaySource:
    """One relay."""

    def __init__(self, client: PageClient) -> None:
        """Ask through `client`."""
        self.name = client.name
        self._client = client
        self._quiet_until = float("-inf")
        self._n_misses = 0

    async def fill(
        self, part: Incoming, expert: ManifestExpert, came: Callable[[int], None]
    ) -> None:
        """Write the part's missing bytes."""
        for _ in range(_MAX_TRIES):
            if trio.current_time() < self._quiet_until:
                raise ShardUnavailable(f"{self.name} is not asked now")
            try:
                await self._ask(part, expert, came)
            except SourceBroke as error:
                if not error.retry_s:
                    self._quiet_until = trio.current_time() + _QUIET_S
                    raise
                await trio.sleep(min(error.retry_s, _MAX_PAUSE_S))
            except SourceRefused:
                self._missed()
                raise
            else:
                self._n_misses = 0
                return
        raise ShardUnavailable(f"{self.name} is still busy")

    def blame(self) -> None:
        """Ask it nothing for a while."""
        self._quiet_until = trio.current_time() + _QUIET_S

    def close(self) -> None:
        """Close its connection."""
        self._client.close()

    def _missed(self) -> None:
        self._n_misses += 1
        if self._n_misses >= _MAX_MISSES:
            self._n_misses = 0
            self._quiet_until = trio.current_time() + _QUIET_S

    async def _ask(
        self, part: Incoming, expert: ManifestExpert, came: Callable[[int], None]
    ) -> None:
        wanted = FileRange(
            offset=part.position,
            n_bytes=part.n_bytes - part.position,
            total=part.n_bytes,
        )
        path = f"/blob/{expert.digest.hex()}"
        try:
            with trio.fail_after(_PATIENCE_S) as scope:
                async with self._client.get(path, wanted.headers()) as answer:
                    head = answer.head
                    check_answer(self.name, wanted, head.status, head.headers)
                    body = RangeBody(self.name, wanted.n_bytes)
                    while chunk := body.take(await answer.next_chunk()):
                        part.append(chunk)
                        came(len(chunk))
                        scope.deadline += len(chunk) / _SLOWEST_BYTES_S
                    body.end()
        except trio.TooSlowError as exc:
            raise SourceBroke(f"{self.name} is too slow") from exc
        except RelayError as exc:
            raise SourceBroke(f"{self.name}: {exc}") from exc


class RelayBlobs:
    """The relays of this worker, the nearest first; a context."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        """Ask the first two of `endpoints`."""
        clients = [PageClient(endpoint) for endpoint in endpoints[:_MAX_RELAYS]]
        self.sources = tuple(RelaySource(client) for client in clients)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for source in self.sources:
            source.close()
