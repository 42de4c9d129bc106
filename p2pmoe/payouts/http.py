"""Payments by an HTTP callback: one POST each, with an idempotency key.

Contract: https alone, no redirects. The token is read from a file and goes into one
header, never into a message or a log. The body is JSON:

    {"id", "period", "payee", "name", "amount": "12.34", "amount_minor", "currency"}

with `Idempotency-Key` the payout's key. A 2xx answer may say
`{"status": "accepted" | "paid" | "rejected", "reference": TEXT, "reason": TEXT}`; an
empty one means accepted. What a status tells:

    2xx                      sent, or as the body says
    2xx with another body    unresolved, stop: whoever answered took no payment, perhaps
    400-499                  failed: refused, nothing is paid
    401 403 404 405 429      failed, and so would all others: stop
    408 409 425 3xx 5xx      unresolved, stop
    422                      unresolved: the key may be known, with another payment
    no connection            failed, stop: nothing was sent
    time-out, broken answer  unresolved, stop

Specification: draft-ietf-httpapi-idempotency-key-header.
"""

import contextlib
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from ledger.rates import format_money
from p2pmoe.network.errors import FolderUnusable
from p2pmoe.network.folder import read_bounded
from p2pmoe.payouts.adapter import Order, Outcome, OutcomeKind
from p2pmoe.payouts.errors import PayoutError
from p2pmoe.payouts.payees import Payee
from p2pmoe.strict_json import NotStrict, parse_json
from relay.tls import client_context

__all__ = ["HttpCallback", "outcome_of", "read_token"]

_MAX_ANSWER_BYTES = 1 << 16
_MAX_TOKEN_BYTES = 4096
_MAX_TEXT = 140
_FAILED_FOR_ALL = (401, 403, 404, 405, 429)
_NOT_KNOWN = (408, 409, 425)
_KEY_KNOWN = (
    422  # for a key that came before with another body, as in a restored ledger
)
_TIMEOUT = httpx.Timeout(30.0, connect=10.0)  # seconds
_ANSWER_S = 60.0  # for a whole answer, however slowly it drips
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout)


class HttpCallback:
    """Posts one order after the other. Use as a context."""

    name = "http"
    max_orders = 1

    def __init__(
        self,
        url: str,
        token: str,
        ca_file: Path | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take where to post to, and by which right.

        Args:
            url: https alone.
            token: secret; empty for none.
            ca_file: authorities besides the system's.
            transport: for tests, in place of the network.
            monotonic: seconds.

        Raises:
            PayoutError: the URL is not https, or holds a password.
            CertificateError: `ca_file` cannot be used.
        """
        self._url = _checked_url(url)
        self._monotonic = monotonic
        self._headers = {"Accept-Encoding": "identity"}  # what is packed may be huge
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._client = httpx.Client(
            verify=client_context(ca_file) if transport is None else True,
            timeout=_TIMEOUT,
            follow_redirects=False,
            transport=transport,
        )

    def __enter__(self) -> Self:
        """Return this."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connections."""
        self._client.close()

    def refusal(self, payee: Payee) -> str:
        """Say why this payee cannot be paid so; empty if it can."""
        return "" if payee.id else f"payee {payee.name!r} has no id"

    def send(self, orders: Sequence[Order]) -> list[Outcome]:
        """Post each order; after one that stops, the rest were not sent."""
        return [self._post(order) for order in orders]

    def _post(self, order: Order) -> Outcome:
        headers = {**self._headers, "Idempotency-Key": order.key}
        try:
            with self._client.stream(
                "POST", self._url, json=_body(order), headers=headers
            ) as response:
                return outcome_of(response.status_code, self._bounded(response))
        except _NOT_SENT as exc:
            detail = f"not sent: {_reason(exc)}"
            return Outcome(kind=OutcomeKind.FAILED, detail=detail, stop=True)
        except httpx.HTTPError as exc:
            detail = f"no whole answer: {_reason(exc)}"
            return Outcome(kind=OutcomeKind.UNRESOLVED, detail=detail, stop=True)

    def _bounded(self, response: httpx.Response) -> bytes | None:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            return None
        body = bytearray()
        deadline = self._monotonic() + _ANSWER_S
        for part in response.iter_bytes():
            body += part
            if len(body) > _MAX_ANSWER_BYTES or self._monotonic() > deadline:
                return None
        return bytes(body)


def outcome_of(status: int, body: bytes | None) -> Outcome:
    """Return what an answer means; a body of None was too long, or too slow."""
    if 200 <= status < 300:
        return _accepted(status, body)
    said = f"answer {status}"
    if status in _FAILED_FOR_ALL:
        return Outcome(kind=OutcomeKind.FAILED, detail=said, stop=True)
    if 400 <= status < 500 and status not in _NOT_KNOWN:
        reason = (_fields(body) or {}).get("reason")
        detail = ": ".join(filter(None, (said, _text(reason))))
        is_known = status == _KEY_KNOWN
        kind = OutcomeKind.UNRESOLVED if is_known else OutcomeKind.FAILED
        return Outcome(kind=kind, detail=detail)
    return Outcome(kind=OutcomeKind.UNRESOLVED, detail=said, stop=True)


def read_token(path: Path) -> str:
    """Return the token in a file that only its owner can read.

    Raises:
        PayoutError: it cannot be read, is empty, or others may read it.
    """
    try:
        raw = read_bounded(path, _MAX_TOKEN_BYTES)
    except FolderUnusable as exc:
        raise PayoutError(str(exc)) from exc
    if raw is None:
        raise PayoutError(f"there is no token file {path}")
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise PayoutError(
            f"others may read the token file {path}", advice=f"chmod 600 {path}"
        )
    token = ""
    with contextlib.suppress(UnicodeDecodeError):
        token = raw.decode("ascii").strip()
    if not token or not token.isprintable():
        raise PayoutError(f"the token file {path} holds no token")
    return token


def _accepted(status: int, body: bytes | None) -> Outcome:
    fields = {} if body == b"" else _fields(body)
    if fields is None:
        detail = f"answer {status} with a body that is none of a payment's"
        return Outcome(kind=OutcomeKind.UNRESOLVED, detail=detail, stop=True)
    reference, reason = _text(fields.get("reference")), _text(fields.get("reason"))
    match fields.get("status"):
        case "paid":
            return Outcome(kind=OutcomeKind.CONFIRMED, reference=reference)
        case "rejected":
            detail = f"rejected: {reason}" if reason else "rejected"
            return Outcome(kind=OutcomeKind.FAILED, detail=detail)
        case _:
            detail = f"answer {status}"
            return Outcome(kind=OutcomeKind.SENT, detail=detail, reference=reference)


def _fields(body: bytes | None) -> Mapping[str, object] | None:
    """Return the body's fields; None if it is no JSON object."""
    if body is None:
        return None
    try:
        found = parse_json(body.decode(), max_depth=8)
    except (NotStrict, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) else None


def _text(value: object) -> str:
    """Return what the outside wrote as one short printable line."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        return ""
    return "".join(c for c in str(value) if c.isprintable())[:_MAX_TEXT].strip()


def _body(order: Order) -> dict[str, object]:
    return {
        "id": order.id,
        "period": order.period,
        "payee": order.payee.id,
        "name": order.payee.name,
        "amount": format_money(order.amount_minor, order.currency),
        "amount_minor": order.amount_minor,
        "currency": order.currency,
    }


def _checked_url(text: str) -> httpx.URL:
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError) as exc:
        raise PayoutError(f"{text[:60]!r} is no URL") from exc
    if url.userinfo:
        raise PayoutError(
            "the payout URL holds a password", advice="put it into the --token-file"
        )
    if url.scheme != "https" or not url.host:
        raise PayoutError(f"{text[:60]!r} is no https URL")
    return url


def _reason(error: Exception) -> str:
    text = _text(str(error)) or type(error).__name__
    return text[0].lower() + text[1:]
