"""The ledger as a contributor sees it: own balance, receipts, statements, over HTTP.

    GET /ledger                       the page, which shows what the paths below answer
    GET /ledger/challenge             {"challenge", "network", "ledger"}
    GET /ledger/session?peer&challenge&signature    {"session", "seconds"}; base64url
    GET /ledger/own/balance           own accounts
    GET /ledger/own/statement?period  the own statement
    GET /ledger/own/receipts?period&from    of at most 31 days, 1,000 at a time
    GET /ledger/log/...               the public log: checkpoint, tiles, entries
    GET /ledger/log/cosignature?note  takes a witness's cosigned checkpoint, base64url

Contract: what is under `own` is answered to a session's peer about itself alone, and
never changes anything; errors are {"error"} with 400, 401, 404 or 503. Questions run in
threads, a few at a time; beyond that 503. The relay takes GET only, so a witness hands
in its note by GET too: to repeat that changes nothing, and only known witnesses count.
"""

import base64
import binascii
import functools
import json
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from importlib import resources
from typing import TypeVar
from urllib.parse import parse_qs

import trio

from ledger.amounts import format_credits
from ledger.balances import balances
from ledger.database import LedgerIdentity, Reader
from ledger.errors import (
    LedgerError,
    NotFound,
    OperationRefused,
    PeriodRefused,
    RemoteError,
)
from ledger.log.folder import fetch_from
from ledger.log.note import MAX_NOTE_BYTES, SignedNote
from ledger.log.tiles import MAX_BUNDLE_BYTES, is_log_path
from ledger.periods import Period, parse_period
from ledger.receipt_document import receipt_document
from ledger.receipt_states import receipts
from ledger.statement_document import statement_document
from ledger.statements import statement
from ledger.store import Store
from mobile_worker.clock import Clock
from p2pmoe.ledgerd.login import Logins, decode
from relay.pages import PageHandler, PageRequest, PageResponse, self_contained

__all__ = ["MAX_RECEIPTS", "SESSION_S", "LedgerView"]

MAX_RECEIPTS = 1000  # in one answer
SESSION_S = 3600
_MAX_AT_ONCE = 2  # questions to the database, of all who ask
_MAX_WAITING = 16
_MAX_LINES = 4  # of a note that is handed in: a witness sends the log's and its own
_MAX_PERIOD_US = 31 * 86_400 * 1_000_000
_MAX_QUERY = 8192
_PEER_BYTES, _SIGNATURE_BYTES = 32, 64
Json = Mapping[str, object]
T = TypeVar("T")


class _Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class LedgerView:
    """Answers for a store, once one is attached; before that it is not ready."""

    def __init__(self, clock: Clock, secret: bytes | None = None) -> None:
        """Make a view; sessions end with it, as their secret does."""
        self._clock = clock
        self._secret = secret or secrets.token_bytes(32)
        self._store: Store | None = None
        self._room = trio.CapacityLimiter(_MAX_AT_ONCE)
        self._writing = trio.CapacityLimiter(1)  # of the writer, who has other work

    def attach(self, store: Store) -> None:
        """Answer for this store from now on."""
        self._store = store

    @property
    def pages(self) -> Mapping[str, PageHandler]:
        """The handlers by path, for a relay."""
        return {"/ledger": self._page, "/ledger/": self._answer}

    async def _page(self, _request: PageRequest) -> PageResponse:
        return _ledger_page()

    async def _answer(self, request: PageRequest) -> PageResponse:
        try:
            return await self._route(request, _query_of(request))
        except _Refused as exc:
            return _json({"error": str(exc)}, exc.status)
        except (PeriodRefused, OperationRefused, RemoteError) as exc:
            return _json({"error": str(exc)}, 400)
        except NotFound as exc:
            return _json({"error": str(exc)}, 404)
        except LedgerError as exc:
            return _json({"error": str(exc)}, 503)

    async def _route(
        self, request: PageRequest, query: Mapping[str, str]
    ) -> PageResponse:
        store = self._store
        if store is None:
            raise _Refused(503, "the ledger is starting; ask again in a moment")
        path = request.path.removeprefix("/ledger/")
        match path:
            case "challenge":
                return _json(self._challenge(store.owner))
            case "session":
                return _json(await self._session(store.owner, query))
            case "log/cosignature":
                return _json(await self._cosign(store, query))
        if path.startswith("log/"):
            return await self._log(store, path.removeprefix("log/"))
        question = _QUESTIONS.get(path)
        if question is None:
            raise _Refused(404, "no such path")
        peer = self._peer(store.owner, request)
        ask = functools.partial(question, store.reader(), peer, query, self._clock)
        return _json(await self._in_thread(ask))

    def _challenge(self, owner: LedgerIdentity) -> Json:
        return {
            "challenge": self._logins(owner).challenge(),
            "network": owner.network.hex(),
            "ledger": owner.ledger.hex(),
        }

    async def _session(self, owner: LedgerIdentity, query: Mapping[str, str]) -> Json:
        peer = decode(query.get("peer", ""), _PEER_BYTES)
        signature = decode(query.get("signature", ""), _SIGNATURE_BYTES)
        if peer is None or signature is None:
            raise _Refused(400, "peer and signature are base64url, 32 and 64 bytes")
        open_session = functools.partial(
            self._logins(owner).open, peer, query.get("challenge", ""), signature
        )
        session = await self._in_thread(open_session)
        if session is None:
            raise _Refused(
                401, "the challenge is over, or the signature is not by peer"
            )
        return {"session": session, "seconds": SESSION_S}

    def _peer(self, owner: LedgerIdentity, request: PageRequest) -> bytes:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        peer = self._logins(owner).peer_of(token) if scheme == "Bearer" else None
        if peer is None:
            raise _Refused(401, "no session, or it is over: sign a new challenge")
        return peer

    def _logins(self, owner: LedgerIdentity) -> Logins:
        return Logins(
            network=owner.network,
            ledger=owner.ledger,
            secret=self._secret,
            wall_us=self._clock.wall_us,
            random=secrets.token_bytes,
        )

    async def _log(self, store: Store, path: str) -> PageResponse:
        if not is_log_path(path):
            raise _Refused(404, "no such path")
        fetch = functools.partial(
            fetch_from(store.folder.log), path, max(MAX_BUNDLE_BYTES, MAX_NOTE_BYTES)
        )
        body = await self._in_thread(fetch)
        if path == "checkpoint":
            return PageResponse(body=body)
        return PageResponse(
            body=body,
            content_type="application/octet-stream",
            headers={"Cache-Control": "public, max-age=31536000, immutable"},
        )

    async def _cosign(self, store: Store, query: Mapping[str, str]) -> Json:
        raw = _note_of(query)
        _refuse_crowd(self._writing)
        async with self._writing:
            return await _result(store.operate("log.cosign", {"note": raw.hex()}))

    async def _in_thread(self, ask: Callable[[], T]) -> T:
        _refuse_crowd(self._room)
        return await trio.to_thread.run_sync(ask, limiter=self._room)


def _balance(
    reader: Reader, peer: bytes, _query: Mapping[str, str], _clock: Clock
) -> Json:
    with reader.session() as connection:
        lines = balances(connection, owner=peer)
    return {
        "peer": peer.hex(),
        "accounts": [
            {
                "kind": line.kind,
                "balance_uc": line.balance_uc,
                "balance": format_credits(line.balance_uc),
            }
            for line in lines
        ],
    }


def _statement(
    reader: Reader, peer: bytes, query: Mapping[str, str], clock: Clock
) -> Json:
    period = _period_of(query, clock)
    with reader.session() as connection:
        return statement_document(statement(connection, peer, period))


def _receipts(
    reader: Reader, peer: bytes, query: Mapping[str, str], clock: Clock
) -> Json:
    period = _period_of(query, clock)
    if period.end_us - period.start_us > _MAX_PERIOD_US:
        raise _Refused(400, "receipts are told of at most 31 days at a time")
    first = query.get("from", "0")
    if not (first.isascii() and first.isdecimal() and len(first) < 10):
        raise _Refused(400, f"from is a number, not {first[:20]!r}")
    with reader.session() as connection:
        lines = receipts(connection, worker=peer, period=period)
    part = lines[int(first) : int(first) + MAX_RECEIPTS]
    end = int(first) + len(part)
    return {
        "peer": peer.hex(),
        "vouchers": [receipt_document(line, explained=True) for line in part],
        "next": end if end < len(lines) else None,
    }


_QUESTIONS: Mapping[str, Callable[[Reader, bytes, Mapping[str, str], Clock], Json]] = {
    "own/balance": _balance,
    "own/statement": _statement,
    "own/receipts": _receipts,
}


def _period_of(query: Mapping[str, str], clock: Clock) -> Period:
    """Return the period asked for, else the month that it is, in UTC."""
    text = query.get("period", "")
    if not text:
        now = datetime.fromtimestamp(clock.wall_us() // 1_000_000, UTC)
        text = f"{now.year:04d}-{now.month:02d}"
    return parse_period(text[:40])


def _refuse_crowd(room: trio.CapacityLimiter) -> None:
    if room.statistics().tasks_waiting >= _MAX_WAITING:
        raise _Refused(503, "too many questions at once; ask again in a moment")


def _note_of(query: Mapping[str, str]) -> bytes:
    """Return a note to hand in: each line that it has costs the writer a check."""
    text = query.get("note", "")
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError) as exc:
        raise _Refused(400, "note is base64url") from exc
    if len(SignedNote.parse(raw).signatures) > _MAX_LINES:
        raise _Refused(400, f"a note of more than {_MAX_LINES} signatures")
    return raw


async def _result(future: Future[T]) -> T:
    """Wait for a future of the writer's thread."""
    token, done = trio.lowlevel.current_trio_token(), trio.Event()

    def wake(_: object) -> None:
        try:
            token.run_sync_soon(done.set)
        except trio.RunFinishedError:
            return

    future.add_done_callback(wake)
    await done.wait()
    return future.result()


def _query_of(request: PageRequest) -> dict[str, str]:
    if len(request.query) > _MAX_QUERY:
        raise _Refused(400, f"a query of {len(request.query)} characters")
    try:
        pairs = parse_qs(request.query, max_num_fields=8, keep_blank_values=True)
    except ValueError as exc:
        raise _Refused(400, "too many fields in the query") from exc
    if any(len(values) > 1 for values in pairs.values()):
        raise _Refused(400, "a field of the query stands twice")
    return {name: values[0] for name, values in pairs.items()}


def _json(document: Json, status: int = 200) -> PageResponse:
    body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
    return PageResponse(status=status, body=body, content_type="application/json")


@functools.cache
def _ledger_page() -> PageResponse:
    page = resources.files("p2pmoe.ledgerd").joinpath("web/ledger.html")
    return self_contained(page.read_bytes())
