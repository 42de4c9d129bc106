"""A model's files on HTTP servers as one address space, read by ranges.

Bytes come in order to whoever asks, from the first server that gives them. After a
break the rest alone is asked for, of the next mirror; pauses grow, and what a server
refuses for good is not asked of it again, unless all have refused and somebody tries
once more. Each answer has a time limit that moves with what has come, so that a server
that drips is given up within a minute however much it was asked for, and one that sends
a little and breaks off counts as one that sends nothing. Redirects are followed a few
times, and only to addresses that may be asked (addresses.py). Nothing read here is
known to be right before its hash is: whoever finds it wrong says so by `blame`, and who
sent it is asked last from then on.
"""

import functools
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
import trio

from mobile_worker.shards.addresses import (
    AddressRefused,
    check_address,
    redirected,
)
from mobile_worker.shards.errors import (
    ShardUnavailable,
    SourceBroke,
    SourceRefused,
)
from mobile_worker.shards.http_range import (
    REDIRECTS,
    FileRange,
    RangeBody,
    check_answer,
)
from mobile_worker.shards.model_files import ModelFilePart, file_starts

__all__ = ["HttpSettings", "HttpSource", "open_client", "read_small"]

_MAX_REDIRECTS = 5
_LEAST_PROGRESS = 1 << 16  # bytes; less counts as a failure
_OK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """How hard to try, and whether servers on this machine may be asked."""

    loopback: bool = True
    max_failures: int = 6  # in a row, of all mirrors together
    first_pause_s: float = 0.5
    max_pause_s: float = 15.0
    silence_s: float = 15.0  # no byte for so long is a break
    slowest_bytes_s: float = 16_384.0


@functools.cache
def _authorities() -> ssl.SSLContext:
    """Return the certificate authorities, read once: that takes a tenth of a second."""
    return httpx.create_ssl_context()


def open_client(settings: HttpSettings) -> httpx.AsyncClient:
    """Return a client that keeps connections; use it as a context.

    A proxy named by the environment is used, but not for plain http, which is loopback.
    """
    verify = _authorities()
    return httpx.AsyncClient(
        timeout=httpx.Timeout(settings.silence_s, pool=None),
        follow_redirects=False,
        verify=verify,
        mounts={"http://": httpx.AsyncHTTPTransport(verify=verify)},
    )


class HttpSource:
    """The files of one model, wherever they can be had."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        files: Sequence[ModelFilePart],
        settings: HttpSettings | None = None,
    ) -> None:
        """Read `files` through `client`, which stays its owner's."""
        self._client = client
        self._files = tuple(files)
        self._starts = file_starts(files)
        self._settings = settings or HttpSettings()
        self._refused: dict[str, str] = {}  # reasons by address
        self._n_lies: Counter[str] = Counter()  # by address
        self.n_bytes = 0  # that have come, of all reads

    async def read(
        self, offset: int, n_bytes: int, write: Callable[[bytes], None]
    ) -> set[str]:
        """Hand the bytes of a range of the address space to `write`, in order.

        Returns the addresses that gave them.

        Raises:
            ShardUnavailable: no server gives them, for the reasons in the message.
            Whatever `write` raises.
        """
        given_by: set[str] = set()
        for number, file in enumerate(self._files):
            start = self._starts[number]
            first = max(offset, start)
            last = min(offset + n_bytes, start + file.n_bytes)
            if first < last:
                wanted = FileRange(
                    offset=first - start, n_bytes=last - first, total=file.n_bytes
                )
                given_by |= await self._read_file(number, wanted, write)
        return given_by

    def blame(self, addresses: Iterable[str]) -> None:
        """Ask these last from now on: what they gave was wrong."""
        self._n_lies.update(addresses)

    async def _read_file(
        self, number: int, wanted: FileRange, write: Callable[[bytes], None]
    ) -> set[str]:
        tries = _Tries(self._settings)
        given_by: set[str] = set()
        done = 0

        def take(chunk: bytes) -> None:
            nonlocal done
            write(chunk)
            done += len(chunk)
            self.n_bytes += len(chunk)

        while done < wanted.n_bytes:
            url = self._address(number, tries.n_asked)
            before = done
            rest = FileRange(
                offset=wanted.offset + done,
                n_bytes=wanted.n_bytes - done,
                total=wanted.total,
            )
            try:
                await self._ask(url, rest, take)
            except SourceRefused as error:
                self._refused[url] = str(error)
            except SourceBroke as error:
                await tries.failed(error, progress=done - before)
            if done > before:
                given_by.add(url)
        return given_by

    def _address(self, number: int, n_asked: int) -> str:
        """Return the address to ask; ShardUnavailable if all have refused."""
        urls = self._files[number].urls
        usable = [u for u in urls if u not in self._refused and self._may_ask(u)]
        if not usable:
            reasons = [self._refused.pop(url, "") for url in urls]  # for next time
            raise ShardUnavailable("; ".join(dict.fromkeys(filter(None, reasons))))
        return sorted(usable, key=self._n_lies.__getitem__)[n_asked % len(usable)]

    def _may_ask(self, url: str) -> bool:
        try:
            check_address(url, loopback=self._settings.loopback)
        except AddressRefused as error:
            self._refused[url] = f"{error}, where nothing is asked"
            return False
        return True

    async def _ask(
        self, url: str, wanted: FileRange, write: Callable[[bytes], None]
    ) -> None:
        host = _host(url)
        pace = _Pace(self._settings)
        body = RangeBody(host, wanted.n_bytes)
        answer = None

        def take(chunk: bytes) -> None:
            write(body.take(chunk))
            pace.came(len(chunk))

        try:
            with pace.limit():
                answer = await _open(self._client, url, wanted.headers())
                check_answer(host, wanted, answer.status_code, answer.headers)
                await _each(answer, take)
                body.end()
        except trio.TooSlowError as exc:
            raise SourceBroke(f"{host} {pace.too_slow}") from exc
        except (httpx.HTTPError, httpx.StreamError) as exc:
            raise _broke(host, exc) from exc
        finally:
            if answer is not None:
                await _close(answer)


class _Pace:
    """How long one answer may take: a while, and longer by what has come of it."""

    def __init__(self, settings: HttpSettings) -> None:
        self._bytes_s = settings.slowest_bytes_s
        self._limit_s = 2 * settings.silence_s
        self._scope = trio.CancelScope()

    @contextmanager
    def limit(self) -> Iterator[None]:
        """Raise TooSlowError when the block takes longer."""
        self._scope.deadline = trio.current_time() + self._limit_s
        with self._scope:
            yield
        if self._scope.cancelled_caught:
            raise trio.TooSlowError

    def came(self, n_bytes: int) -> None:
        """Allow the time that so many bytes may take."""
        self._limit_s += n_bytes / self._bytes_s
        self._scope.deadline += n_bytes / self._bytes_s

    @property
    def too_slow(self) -> str:
        """What is told of a server that was given up."""
        return f"took longer than {self._limit_s:.0f} s for what it sent"


class _Tries:
    """Failures in a row, and the pauses between them."""

    def __init__(self, settings: HttpSettings) -> None:
        self.n_asked = 0
        self._settings = settings
        self._n_failures = 0

    async def failed(self, error: SourceBroke, *, progress: int = 0) -> None:
        """Wait before the next try; ShardUnavailable if it was the last."""
        self.n_asked += 1
        self._n_failures = 0 if progress >= _LEAST_PROGRESS else self._n_failures + 1
        if self._n_failures >= self._settings.max_failures:
            raise ShardUnavailable(f"{error} (tried {self._n_failures} times)")
        pause_s = self._settings.first_pause_s * 2.0 ** max(0, self._n_failures - 1)
        await trio.sleep(max(min(pause_s, self._settings.max_pause_s), error.retry_s))


async def read_small(
    client: httpx.AsyncClient,
    url: str,
    max_bytes: int,
    settings: HttpSettings | None = None,
) -> bytes:
    """Return a whole small file, such as a manifest.

    Raises:
        ShardUnavailable: it cannot be had, or is longer than `max_bytes`.
    """
    settings = settings or HttpSettings()
    tries = _Tries(settings)
    try:
        check_address(url, loopback=settings.loopback)
    except AddressRefused as exc:
        raise ShardUnavailable(f"{exc}, where nothing is asked") from exc
    while True:
        try:
            return await _get(client, url, max_bytes, settings)
        except SourceBroke as error:
            await tries.failed(error)


async def _get(
    client: httpx.AsyncClient, url: str, max_bytes: int, settings: HttpSettings
) -> bytes:
    host = _host(url)
    body = RangeBody(host, max_bytes, is_most=True)
    whole = bytearray()
    anything = FileRange(offset=0, n_bytes=1, total=1)
    answer = None
    pace = _Pace(settings)

    def take(chunk: bytes) -> None:
        whole.extend(body.take(chunk))
        pace.came(len(chunk))

    try:
        with pace.limit():
            answer = await _open(client, url, {"Accept-Encoding": "identity"})
            told = {
                name: value
                for name, value in answer.headers.items()
                if name in {"content-encoding", "retry-after"}
            }
            check_answer(host, anything, answer.status_code, told)
            await _each(answer, take)
    except trio.TooSlowError as exc:
        raise SourceBroke(f"{host} {pace.too_slow}") from exc
    except (httpx.HTTPError, httpx.StreamError) as exc:
        raise _broke(host, exc) from exc
    finally:
        if answer is not None:
            await _close(answer)
    return bytes(whole)


async def _open(
    client: httpx.AsyncClient, url: str, headers: dict[str, str]
) -> httpx.Response:
    """Send a request and return the answer's head, redirects followed."""
    at = url
    for _ in range(_MAX_REDIRECTS + 1):
        try:
            request = client.build_request("GET", at, headers=headers)
            answer = await client.send(request, stream=True)
        except (httpx.InvalidURL, ValueError) as exc:  # a host that no name can have
            raise SourceRefused(f"{at[:80]!r} is no address, or leads to none") from exc
        if answer.status_code not in REDIRECTS:
            return answer
        await _close(answer)
        try:
            at = redirected(at, answer.headers.get("location", ""))
        except AddressRefused as exc:
            reason = f"{_host(url)} leads to an address that is not asked: {exc}"
            raise SourceRefused(reason) from exc
    raise SourceRefused(f"{_host(url)} leads from one address to the next for ever")


async def _each(answer: httpx.Response, take: Callable[[bytes], None]) -> None:
    """Hand each chunk of a body to `take`; what that raises ends the reading.

    It ends by cancelling the read below: a loop that is left would leave the client's
    generators to the garbage collector.
    """
    failed: list[Exception] = []
    with trio.CancelScope() as scope:
        async for chunk in answer.aiter_raw():
            try:
                if not failed:
                    take(chunk)
            except Exception as error:  # noqa: BLE001 - raised below
                failed.append(error)
                scope.cancel()
    if failed:
        raise failed[0]


async def _close(answer: httpx.Response) -> None:
    """Give a connection back, or close it where there is more to come."""
    with trio.CancelScope(shield=True), trio.move_on_after(1.0):
        await answer.aclose()


def _host(url: str) -> str:
    """Return what messages call an address: no query, which may hold a secret."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path}"[:120]


def _broke(host: str, error: Exception) -> SourceBroke:
    reason = str(error).lower() or type(error).__name__
    return SourceBroke(f"{host}: {reason[:200]}")
