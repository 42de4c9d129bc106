"""The local page and what it may ask, as values: no socket here. Pure.

    GET  /             the page; it holds no secret, and is the same for everybody
    GET  /state        the report
    GET  /limits       the limits that hold
    GET  /earnings     what the own receipts say, by day
    POST /pause /resume /drain /set-limits     as the desk does them

Everything but the page itself needs the token, as `Authorization: Bearer`. The token
stands in the fragment of the address that `p2pmoe status --page` prints; a fragment is
not sent to any server. The Host must be this machine's name, so that no web page
reaches in by a name of its own (DNS rebinding), and an Origin must be the page's. Who
guesses a token learns nothing from how long that took.
"""

import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from p2pmoe.contributor.desk import Desk
from p2pmoe.contributor.errors import ControlRefused
from p2pmoe.strict_json import NotStrict, parse_json
from relay.pages import PageResponse, host_name, self_contained

__all__ = ["MAX_BODY_BYTES", "Ask", "LocalPage"]

MAX_BODY_BYTES: Final = 16 << 10
_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_READS: Final = {"/state": "status", "/limits": "limits"}
_ACTIONS: Final = frozenset({"pause", "resume", "drain", "set-limits"})
_MAX_DEPTH: Final = 3
_MAX_DIGITS: Final = 20
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request; header names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPage:
    """See the module. html: the page. earnings: returns its document."""

    desk: Desk
    token: str
    html: bytes
    earnings: Callable[[], Mapping[str, object]]

    def answer(self, ask: Ask) -> PageResponse:
        """Return the answer to a request, whatever it is."""
        host = ask.headers.get("host", "")
        origin = ask.headers.get("origin", "")
        if host_name(host) not in _HOSTS or origin not in ("", f"http://{host}"):
            return _error(403, "this page is for this machine alone")
        if ask.method not in ("GET", "HEAD", "POST"):
            return _error(405, "GET or POST", {"Allow": "GET, HEAD, POST"})
        path = ask.path.partition("?")[0]
        if path == "/" and ask.method != "POST":
            return self_contained(self.html)
        if not self._may_ask(ask):
            return _error(401, "open the address that `p2pmoe status --page` prints")
        try:
            return self._done(ask, path)
        except ControlRefused as refused:
            text = f"{refused}. {refused.advice}" if refused.advice else str(refused)
            return _error(409, text)

    def _may_ask(self, ask: Ask) -> bool:
        given = ask.headers.get("authorization", "").encode()
        return hmac.compare_digest(given, f"Bearer {self.token}".encode())

    def _done(self, ask: Ask, path: str) -> PageResponse:
        action = path.removeprefix("/")
        if ask.method == "POST" and action in _ACTIONS:
            return _document(self.desk.operate(action, _params(ask.body)))
        if ask.method != "POST" and path in _READS:
            return _document(self.desk.operate(_READS[path], {}))
        if ask.method != "POST" and path == "/earnings":
            return _document(self.earnings())
        return _error(404, "there is nothing here")


def _params(body: bytes) -> dict[str, object]:
    """Return the JSON object of a body; none at all is an empty one."""
    if not body:
        return {}
    try:
        found = parse_json(body.decode(), max_depth=_MAX_DEPTH, max_digits=_MAX_DIGITS)
    except (NotStrict, UnicodeDecodeError) as error:
        raise ControlRefused("the body is no JSON") from error
    if not isinstance(found, dict):
        raise ControlRefused("the body is no JSON object")
    return found


def _document(result: Mapping[str, object]) -> PageResponse:
    return PageResponse(body=json.dumps(result).encode(), content_type=_JSON)


def _error(
    status: int, text: str, headers: Mapping[str, str] | None = None
) -> PageResponse:
    body = json.dumps({"error": text}).encode()
    return PageResponse(
        status=status, body=body, content_type=_JSON, headers=headers or {}
    )
