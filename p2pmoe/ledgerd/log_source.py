"""A log where it is served: over HTTP, or in a folder.

Contract: `fetch` gives a file's bytes or raises the ledger's own errors; a file is read
up to its bound and no further, never decompressed, never redirected, and a server that
dawdles is left after a minute. Nothing that comes is believed: `ledger.log` checks it.
`hand_in` gives a cosigned checkpoint to the log's server; a folder has none.
"""

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import httpx

from ledger.errors import LogUnavailable, NotFound
from ledger.log.folder import fetch_from
from p2pmoe.errors import ConfigurationError
from relay.tls import client_context

__all__ = ["COSIGNATURE_PATH", "FolderLog", "HttpLog", "LogSource", "open_log"]

COSIGNATURE_PATH = "cosignature"
_TIMEOUT_S = 20.0  # for a connection, or for the next bytes
_WHOLE_S = 60.0  # for one file
_HEADERS = {"accept-encoding": "identity"}


class LogSource(Protocol):
    """Where a log is read, and where cosignatures go."""

    def fetch(self, path: str, max_bytes: int) -> bytes:
        """Return a file's bytes; see `ledger.log.folder.Fetch`."""
        ...

    def hand_in(self, note: bytes) -> bool:
        """Give a cosigned checkpoint to the log; False if there is nobody to take it.

        Raises:
            LogUnavailable: it was not taken.
        """
        ...


@contextmanager
def open_log(where: str, ca_file: Path | None = None) -> Iterator[LogSource]:
    """Open a log.

    Args:
        where: an address (https://... or http://...) or a folder.
        ca_file: further authorities for https.

    Raises:
        ConfigurationError: no such address or folder.
    """
    if "://" not in where:
        yield FolderLog(Path(where))
        return
    context = client_context(ca_file)
    with httpx.Client(verify=context, timeout=_TIMEOUT_S, headers=_HEADERS) as client:
        yield HttpLog(client, where)


class FolderLog:
    """A log in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        """Read in `folder`.

        Raises:
            ConfigurationError: there is none.
        """
        if not folder.is_dir():
            raise ConfigurationError(f"{folder} is no folder of a log")
        self._fetch = fetch_from(folder)

    def fetch(self, path: str, max_bytes: int) -> bytes:
        """Return a file's bytes, or the first `max_bytes` + 1 of them."""
        return self._fetch(path, max_bytes)

    def hand_in(self, note: bytes) -> bool:
        """Nobody is here to take it: `p2pmoe ledger cosign` does."""
        del note
        return False


class HttpLog:
    """A log behind an address."""

    def __init__(
        self,
        client: httpx.Client,
        address: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read below `address`.

        Raises:
            ConfigurationError: it is no http(s) address.
        """
        self._client = client
        self._base = _checked(address)
        self._now = monotonic

    def fetch(self, path: str, max_bytes: int) -> bytes:
        """Return a file's bytes, or the first `max_bytes` + 1 of them.

        Raises:
            NotFound: the server has no such file.
            LogUnavailable: it did not answer, or not with the file.
        """
        url = f"{self._base}/{path}"
        until = self._now() + _WHOLE_S
        try:
            with self._client.stream("GET", url) as response:
                if response.status_code in {404, 410}:
                    raise NotFound(f"{url} is not there")
                encoding = response.headers.get("content-encoding", "identity")
                if response.status_code != 200 or encoding != "identity":
                    raise LogUnavailable(
                        f"{url}: status {response.status_code}, {encoding[:20]!r}"
                    )
                raw = bytearray()
                for piece in response.iter_bytes():
                    raw += piece
                    if len(raw) > max_bytes:
                        break
                    if self._now() > until:
                        raise LogUnavailable(f"{url} takes more than {_WHOLE_S} s")
                return bytes(raw[: max_bytes + 1])
        except httpx.HTTPError as exc:
            raise LogUnavailable(f"{url}: {_reason(exc)}") from exc

    def hand_in(self, note: bytes) -> bool:
        """Give a cosigned checkpoint to the log's server; True once it took it.

        Raises:
            LogUnavailable: it did not take it.
        """
        url = f"{self._base}/{COSIGNATURE_PATH}"
        # GET: a relay takes no other request, and to repeat this one changes nothing.
        query = {"note": base64.urlsafe_b64encode(note).decode().rstrip("=")}
        try:
            with self._client.stream("GET", url, params=query) as response:
                if response.status_code != 200:
                    raise LogUnavailable(f"{url}: status {response.status_code}")
        except httpx.HTTPError as exc:
            raise LogUnavailable(f"{url}: {_reason(exc)}") from exc
        return True


def _checked(address: str) -> str:
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
        httpx.URL(address)
    except (ValueError, httpx.InvalidURL) as exc:
        raise ConfigurationError(f"{address[:200]!r} is no address") from exc
    if parts.scheme not in {"http", "https"} or not host or parts.query:
        raise ConfigurationError(
            f"{address[:200]!r} is no http(s) address without a query"
        )
    if parts.username or parts.password or parts.fragment:
        raise ConfigurationError("a log's address has neither user nor fragment")
    return address.rstrip("/")


def _reason(exc: httpx.HTTPError) -> str:
    lines = str(exc).splitlines()
    return lines[0][:200] if lines else type(exc).__name__
