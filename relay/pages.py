"""Plain HTTP on the relay's port: neutral pages, health, metrics, the caller's pages.

    GET /          the status page if the relay has one, else a neutral page that names
                   no product (scanners look for open relays)
    GET /status    the status as JSON; its live form is in `relay.page_sockets`
    GET /map       the signed relay map (`relay.relay_map`); 404 if there is none
    GET /livez     200 while the process runs
    GET /readyz    200 when it takes peers, else 503 with the reason
    GET /metrics   Prometheus text, to loopback or with the bearer token; else 404
    others         the caller's handlers, exact or by prefix (a path that ends in "/")
    anything else  404, the same neutral page

GET and HEAD only, no bodies; one request a connection, unless the answer keeps it open
(`relay.visits`). Every answer carries a strict Content-Security-Policy; a handler may
set its own. Bodies are bytes, or an iterator of chunks with a declared length.
"""

import base64
import contextlib
import functools
import hashlib
import hmac
import http
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Final

from relay.defaults import MAX_PAGES
from relay.endpoint import is_loopback

__all__ = [
    "PLAIN_PATHS",
    "PageHandler",
    "PageRequest",
    "PageResponse",
    "Pages",
    "host_name",
    "neutral_page",
    "render_head",
    "self_contained",
    "status_page",
]

# What a relay with a certificate of its own tells without TLS too: no browser knows
# Ed25519 certificates, and nothing here is a secret.
PLAIN_PATHS: Final = frozenset({"/", "/status", "/livez", "/readyz"})
_SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_NEUTRAL: Final = (
    b"<!doctype html><html lang=en><meta charset=utf-8><title>Hello</title>"
    b"<p>Nothing to see here.</p></html>\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A GET or HEAD request. `remote`: the address that asks, as far as it is known."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    remote: str
    forwarded: bool


def _nothing() -> None:
    """Stand in for a handler that need not know when its answer is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageResponse:
    """An answer. `chunks` with `length` in place of `body` for what is large.

    `keep_alive`: the connection may serve another request. `on_close` is called once
    the answer is written, or will not be.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: AsyncIterator[bytes] | None = None
    length: int = 0
    keep_alive: bool = False
    on_close: Callable[[], None] = _nothing

    @property
    def n_bytes(self) -> int:
        """Length of the body."""
        return self.length if self.chunks is not None else len(self.body)


def host_name(host: str) -> str:
    """Return the host of a Host header, lower case, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


PageHandler = Callable[[PageRequest], Awaitable[PageResponse]]


def render_head(response: PageResponse, *, keep_alive: bool = False) -> bytes:
    """Return status line and headers, up to and with the empty line."""
    status = http.HTTPStatus(response.status)
    headers = {
        **_SECURITY_HEADERS,
        "Content-Type": response.content_type,
        "Content-Length": str(response.n_bytes),
        "Connection": "keep-alive" if keep_alive else "close",
        **response.headers,
    }
    lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def neutral_page(status: int = 200) -> PageResponse:
    """Return the page that says nothing."""
    return PageResponse(
        status=status, body=_NEUTRAL, content_type="text/html; charset=utf-8"
    )


@functools.cache
def status_page() -> PageResponse:
    """Return the status page."""
    return self_contained(
        resources.files("relay").joinpath("web/status.html").read_bytes()
    )


def self_contained(page: bytes) -> PageResponse:
    """Return an HTML page under a policy that allows its own script and style alone."""
    scripts, styles = (
        " ".join(map(_source_hash, re.findall(pattern, page, re.DOTALL)))
        for pattern in (rb"<script>(.*?)</script>", rb"<style>(.*?)</style>")
    )
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src {styles}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'"
    )
    return PageResponse(
        body=page,
        content_type="text/html; charset=utf-8",
        headers={"Content-Security-Policy": policy},
    )


async def _show_status(_request: PageRequest) -> PageResponse:
    return status_page()


def _tell_status(status: Callable[[], bytes]) -> PageHandler:
    async def tell(_request: PageRequest) -> PageResponse:
        return PageResponse(body=status(), content_type="application/json")

    return tell


def _source_hash(text: bytes) -> str:
    digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
    return f"'sha256-{digest}'"


class Pages:
    """Finds the answer to a request."""

    def __init__(
        self,
        handlers: Mapping[str, PageHandler],
        *,
        metrics: Callable[[], str],
        unready: Callable[[], str],
        metrics_token: str,
        status: Callable[[], bytes] | None = None,
        relay_map: Callable[[], bytes] = bytes,
    ) -> None:
        self._exact = {path: h for path, h in handlers.items() if not _is_prefix(path)}
        if status is not None:
            self._exact |= {"/": _show_status, "/status": _tell_status(status)}
        prefixes = [(path, h) for path, h in handlers.items() if _is_prefix(path)]
        self._prefixes = sorted(prefixes, key=lambda item: -len(item[0]))
        self._metrics = metrics
        self._unready = unready
        self._relay_map = relay_map
        self._metrics_token = metrics_token
        self._n_open = 0

    @contextlib.asynccontextmanager
    async def open(self, request: PageRequest) -> AsyncIterator[PageResponse]:
        """Hold the answer while it is written; 503 above 64 at once."""
        if self._n_open >= MAX_PAGES:
            yield PageResponse(status=503, headers={"Retry-After": "5"})
            return
        self._n_open += 1
        answer = None
        try:
            answer = await self.answer(request)
            yield answer
        finally:
            self._n_open -= 1
            if answer is not None:
                answer.on_close()

    async def answer(self, request: PageRequest) -> PageResponse:
        """Return the answer to a request, whatever it is."""
        if request.method not in ("GET", "HEAD"):
            return PageResponse(status=405, headers={"Allow": "GET, HEAD"})
        handler = self._exact.get(request.path)
        if handler is None:
            for prefix, candidate in self._prefixes:
                if request.path.startswith(prefix):
                    handler = candidate
                    break
        if handler is not None:
            return await handler(request)
        return self._own_page(request)

    def _own_page(self, request: PageRequest) -> PageResponse:
        match request.path:
            case "/":
                return neutral_page()
            case "/livez":
                return PageResponse(body=b"ok\n")
            case "/readyz":
                reason = self._unready()
                body = f"{reason or 'ok'}\n".encode()
                return PageResponse(status=503 if reason else 200, body=body)
            case "/map" if signed := self._relay_map():
                kind = "application/octet-stream"
                return PageResponse(body=signed, content_type=kind)
            case "/metrics" if self._may_see_metrics(request):
                kind = "text/plain; version=0.0.4; charset=utf-8"
                return PageResponse(body=self._metrics().encode(), content_type=kind)
            case _:
                return neutral_page(404)

    def _may_see_metrics(self, request: PageRequest) -> bool:
        if self._metrics_token:
            given = request.headers.get("authorization", "").encode()
            wanted = f"Bearer {self._metrics_token}".encode()
            if hmac.compare_digest(given, wanted):
                return True
        # A front on this host also comes from loopback: it shows by its headers.
        return is_loopback(request.remote) and not request.forwarded


def _is_prefix(path: str) -> bool:
    return path.endswith("/") and path != "/"
