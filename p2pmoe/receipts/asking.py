"""Ask a network's ledger for one's own accounts, over the relay's port.

Contract: the relay is dialled as any connection to it, its certificate checked as the
invite says. Whoever asks signs a challenge with its peer's key; what is signed names
the network of the invite, so it is of no use elsewhere. Answers are bounded and read
strictly; one that is none is a `LedgerAnswerRefused`.
"""

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from mobile_worker.session.identity import Identity
from p2pmoe.errors import P2pmoeError
from p2pmoe.ledgerd.login import LOGIN_DOMAIN, encode, login_body
from p2pmoe.receipts.comparison import MAX_ROWS
from p2pmoe.strict_json import NotStrict, parse_json
from relay.client import ClientSettings
from relay.endpoint import Endpoint
from relay.fetching import Asked, fetch_page

__all__ = ["LedgerAnswerRefused", "OwnLedger"]

_MAX_BYTES = 4 << 20
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,256}", re.ASCII)  # goes into URLs and headers
_KEY_BYTES = 32
_OK, _NOT_FOUND = 200, 404


class LedgerAnswerRefused(P2pmoeError):
    """The ledger behind a relay did not answer what was asked."""


class OwnLedger:
    """One peer's view of its accounts."""

    def __init__(
        self,
        endpoint: Endpoint,
        network: bytes,
        identity: Identity,
        settings: ClientSettings | None = None,
    ) -> None:
        """Take the relay, the network's id and the key of whose accounts it is."""
        self._endpoint = endpoint
        self._network = network
        self._identity = identity
        self._settings = settings
        self._session = ""

    async def log_in(self) -> str:
        """Sign a challenge; returns the session's token, which is secret.

        Raises:
            RelayError: the relay cannot be reached.
            LedgerAnswerRefused: it has no ledger, one of another network, or refused.
        """
        told = await self._ask("challenge", {})
        challenge, ledger = told.get("challenge"), _key(told.get("ledger"))
        if _key(told.get("network")) != self._network or ledger is None:
            raise LedgerAnswerRefused(
                "the relay's ledger is not of the invite's network",
                advice="give the invite of the network that you work for",
            )
        if not isinstance(challenge, str) or not _TOKEN.fullmatch(challenge):
            raise LedgerAnswerRefused("the ledger sent no challenge")
        body = LOGIN_DOMAIN + login_body(self._network, ledger, challenge)
        signed = {
            "peer": encode(self._identity.peer_id),
            "challenge": challenge,
            "signature": encode(self._identity.sign(body)),
        }
        session = (await self._ask("session", signed)).get("session")
        if not isinstance(session, str) or not _TOKEN.fullmatch(session):
            raise LedgerAnswerRefused("the ledger opened no session")
        self._session = session
        return session

    async def statement(self, period: str) -> Mapping[str, object]:
        """Return the own statement of a period, as `ledger statement --json`."""
        return await self._ask("own/statement", {"period": period})

    async def receipts(
        self, period: str, tell: Callable[[int], None] = lambda _: None
    ) -> list[object]:
        """Return the rows of the own receipts in a period of at most 31 days.

        `tell` hears how many there are so far.
        """
        rows: list[object] = []
        start: object = 0
        while isinstance(start, int):
            query = {"period": period, "from": str(start)}
            told = await self._ask("own/receipts", query)
            part, following = told.get("vouchers"), told.get("next")
            if not isinstance(part, list) or (following is not None and not part):
                raise LedgerAnswerRefused("the ledger sent no receipts")
            rows += part
            if following not in (None, len(rows)) or len(rows) > MAX_ROWS:
                raise LedgerAnswerRefused("the ledger's receipts do not come to an end")
            tell(len(rows))
            start = following
        return rows

    async def _ask(self, path: str, query: Mapping[str, str]) -> Mapping[str, object]:
        asked = Asked(
            path=f"/ledger/{path}" + (f"?{urlencode(query)}" if query else ""),
            name="ledger",
            max_bytes=_MAX_BYTES,
            headers={"Authorization": f"Bearer {self._session}"}
            if self._session
            else {},
        )
        answer = await fetch_page(self._endpoint, asked, self._settings)
        try:
            document = parse_json(answer.body.decode(), max_depth=16)
        except (NotStrict, UnicodeDecodeError) as exc:
            if answer.status == _NOT_FOUND:
                raise LedgerAnswerRefused(
                    f"relay {self._endpoint.address} shows no ledger",
                    advice="the network's ledger runs elsewhere: ask its operator for "
                    "the output of `p2pmoe ledger receipts --json` and name that file",
                ) from exc
            raise LedgerAnswerRefused(
                f"relay {self._endpoint.address}: status {answer.status}, no JSON"
            ) from exc
        if not isinstance(document, Mapping):
            raise LedgerAnswerRefused("the ledger's answer is no object")
        if answer.status != _OK:
            said = document.get("error")
            reason = said[:200] if isinstance(said, str) else f"status {answer.status}"
            raise LedgerAnswerRefused(f"the ledger says: {reason}")
        return document


def _key(text: object) -> bytes | None:
    try:
        raw = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        return None
    return raw if len(raw) == _KEY_BYTES else None
