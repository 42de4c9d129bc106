"""The contributor's view: own accounts by a signed challenge, the public log."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from ledger.log.checkpoint import cosign, witness_key
from ledger.log.note import SignedNote
from ledger.store import Store
from p2pmoe.ledgerd import view as module
from p2pmoe.ledgerd.login import LOGIN_DOMAIN, encode, login_body
from p2pmoe.ledgerd.view import LedgerView
from relay.pages import PageRequest, PageResponse
from tests.support.ledger_world import Party, WorldClock
from tests.support.paid_world import PaidWorld, copied
from tests.support.trio_test import trio_test


class Asking:
    """A view over a store, and who asks it."""

    def __init__(self, world: PaidWorld, store: Store) -> None:
        self.world = world
        self.store = store
        self.view = LedgerView(WorldClock(world), secret=b"s" * 32)
        self.view.attach(store)

    async def get(
        self, path: str, session: str = "", **query: object
    ) -> tuple[int, dict]:
        answer = await self.raw(path, session, **query)
        assert answer.content_type == "application/json"
        return answer.status, json.loads(answer.body)

    async def raw(self, path: str, session: str = "", **query: object) -> PageResponse:
        request = PageRequest(
            method="GET",
            path=path,
            query=urlencode(query),
            headers={"authorization": f"Bearer {session}"} if session else {},
            remote="192.0.2.1",
            forwarded=False,
        )
        pages = self.view.pages
        return await (pages.get(path) or pages["/ledger/"])(request)

    async def log_in(self, party: Party) -> str:
        _, told = await self.get("/ledger/challenge")
        signed = login_body(
            bytes.fromhex(told["network"]),
            bytes.fromhex(told["ledger"]),
            told["challenge"],
        )
        status, opened = await self.get(
            "/ledger/session",
            peer=encode(party.id),
            challenge=told["challenge"],
            signature=encode(party.sign(LOGIN_DOMAIN + signed)),
        )
        assert status == 200, opened
        return str(opened["session"])


@pytest.fixture(scope="module")
def paid(tmp_path_factory: pytest.TempPathFactory) -> PaidWorld:
    return PaidWorld(tmp_path_factory.mktemp("paid") / "ledger")


@pytest.fixture
def asking(paid: PaidWorld, tmp_path: Path) -> Iterator[Asking]:
    world = copied(paid, tmp_path / "ledger")
    with world.open(world.path) as store:
        yield Asking(world, store)


@trio_test
async def test_who_signed_sees_own_accounts_and_nobody_elses(asking: Asking) -> None:
    first, second = asking.world.workers[:2]
    for party in (first, second):
        session = await asking.log_in(party)
        status, balance = await asking.get("/ledger/own/balance", session)
        assert (status, balance["peer"]) == (200, party.id.hex())
        statement = (
            await asking.get("/ledger/own/statement", session, period="2026-11")
        )[1]
        assert statement["worker"] == party.id.hex()
        receipts = (
            await asking.get("/ledger/own/receipts", session, period="2026-11")
        )[1]
        (line,) = receipts["vouchers"]
        assert line["worker"] == party.id.hex()
        assert line["amount_uc"] == statement["earned_uc"] > 0
        assert (line["status"], line["reason"]) == ("pending", "available")
        assert receipts["next"] is None


@trio_test
async def test_the_period_is_this_month_where_none_is_named(asking: Asking) -> None:
    session = await asking.log_in(asking.world.workers[0])
    _, statement = await asking.get("/ledger/own/statement", session)
    assert statement["period"]["start"] == "2026-12-01T00:00:00.000000Z"


@trio_test
async def test_receipts_come_in_parts(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = asking.world.workers[0]
    for _ in range(4):
        asking.world.serve(asking.store, worker, 1)
    monkeypatch.setattr(module, "MAX_RECEIPTS", 3)
    session = await asking.log_in(worker)
    seen, start = [], 0
    while start is not None:
        _, part = await asking.get(
            "/ledger/own/receipts", session, period="2026-12", **{"from": start}
        )
        seen += [line["voucher"] for line in part["vouchers"]]
        start = part["next"]
    assert len(seen) == len(set(seen)) == 4


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/ledger/own/balance", {}, 401),
        ("/ledger/own/statement", {"period": "2026-11"}, 401),
        ("/ledger/session", {}, 400),
        ("/ledger/session", {"peer": "A" * 43, "signature": "A" * 86}, 401),
        ("/ledger/nothing", {}, 404),
        ("/ledger/log/../ledger.sqlite3", {}, 404),
        ("/ledger/log/tile/0/x999/999", {}, 404),
        ("/ledger/log/cosignature", {}, 400),
        ("/ledger/log/cosignature", {"note": "é"}, 400),
        ("/ledger/challenge", {f"f{n}": n for n in range(9)}, 400),
        ("/ledger/challenge", {"f": "x" * 9000}, 400),
    ],
)
@trio_test
async def test_what_is_refused_is_said_in_a_line(
    asking: Asking, path: str, query: dict, status: int
) -> None:
    answered, body = await asking.get(path, **query)
    assert answered == status, body
    assert body["error"]
    assert "\n" not in body["error"]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("statement", {"period": "2026-13"}),
        ("receipts", {"period": "2026"}),
        ("receipts", {"period": "2026-11", "from": "-1"}),
        ("receipts", {"period": "2026-11", "from": "٣"}),
    ],
)
@trio_test
async def test_questions_that_make_no_sense(
    asking: Asking, path: str, query: dict
) -> None:
    session = await asking.log_in(asking.world.workers[0])
    status, body = await asking.get(f"/ledger/own/{path}", session, **query)
    assert status == 400
    assert body["error"]


@trio_test
async def test_before_a_store_is_there_it_says_so(asking: Asking) -> None:
    asking.view = LedgerView(WorldClock(asking.world))
    status, body = await asking.get("/ledger/challenge")
    assert (status, body["error"][:10]) == (503, "the ledger")


@trio_test
async def test_the_log_is_public_and_a_known_witness_may_cosign(
    asking: Asking,
) -> None:
    checkpoint = await asking.raw("/ledger/log/checkpoint")
    assert checkpoint.body == (asking.store.folder.log / "checkpoint").read_bytes()
    tile = await asking.raw("/ledger/log/tile/0/000.p/3")
    assert len(tile.body) == 3 * 32
    assert "immutable" in tile.headers["Cache-Control"]
    anna = Party("anna")
    key = witness_key("example.com/anna", anna.id)
    asking.store.folder.witnesses.write_text(key.text + "\n")
    seen = SignedNote.parse(checkpoint.body)
    note = cosign(seen, key, anna.sign, asking.world.now_us // 10**6).pack()
    text = base64.urlsafe_b64encode(note).decode().rstrip("=")
    for is_new in (True, False):
        status, told = await asking.get("/ledger/log/cosignature", note=text)
        assert status == 200, told
        assert [each["is_new"] for each in told["cosigners"]] == [is_new]
    flipped = bytearray(note)
    flipped[-20] ^= 1
    text = base64.urlsafe_b64encode(flipped).decode()
    assert (await asking.get("/ledger/log/cosignature", note=text))[0] == 400
    many = SignedNote(seen.text, seen.signatures * 5).pack()
    text = base64.urlsafe_b64encode(many).decode()
    status, told = await asking.get("/ledger/log/cosignature", note=text)
    assert (status, told["error"]) == (400, "a note of more than 4 signatures")


@trio_test
async def test_the_page_allows_its_own_script_alone(asking: Asking) -> None:
    page = await asking.raw("/ledger")
    assert page.body.startswith(b"<!doctype html>")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
