"""Asking the ledger behind a relay: a real relay, a real ledger's view."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mobile_worker.session.identity import Identity
from p2pmoe.ledgerd import view as view_module
from p2pmoe.ledgerd.view import LedgerView
from p2pmoe.receipts.asking import LedgerAnswerRefused, OwnLedger
from relay.pages import PageRequest, PageResponse
from tests.support.ledger_world import WorldClock, seeded_key
from tests.support.paid_world import PaidWorld
from tests.support.relays import running_relay, tls_config
from tests.support.trio_test import trio_test


def identity_of(world: PaidWorld, number: int = 0) -> Identity:
    """Return a worker of the world, as one who can sign."""
    seed = seeded_key(world.workers[number].name).private_bytes_raw()
    return Identity.from_seeds(seed, b"s" * 32)


@contextlib.asynccontextmanager
async def shown(
    tmp_path: Path, network: bytes | None = None
) -> AsyncIterator[tuple[PaidWorld, OwnLedger]]:
    world = PaidWorld(tmp_path / "ledger")
    view = LedgerView(WorldClock(world))
    with world.open(world.path) as store:
        view.attach(store)
        async with running_relay(tls_config(), pages=view.pages) as relay:
            endpoint = relay.endpoint("127.0.0.1")
            own = OwnLedger(endpoint, network or world.network.id, identity_of(world))
            yield world, own


@trio_test
async def test_own_statement_and_receipts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_module, "MAX_RECEIPTS", 2)
    async with shown(tmp_path) as (world, own):
        await own.log_in()
        statement = await own.statement("2026-11")
        assert statement["worker"] == world.workers[0].id.hex()
        counts: list[int] = []
        rows = await own.receipts("2026-11", counts.append)
        assert [row["worker"] for row in rows] == [world.workers[0].id.hex()]
        assert counts == [1]
        with pytest.raises(LedgerAnswerRefused, match="31 days"):
            await own.receipts("2026")


@trio_test
async def test_nothing_is_told_before_a_login_nor_of_another_network(
    tmp_path: Path,
) -> None:
    async with shown(tmp_path) as (_, own):
        with pytest.raises(LedgerAnswerRefused, match="no session"):
            await own.statement("2026-11")
    async with shown(tmp_path / "b", network=b"x" * 32) as (_, own):
        with pytest.raises(LedgerAnswerRefused, match="network"):
            await own.log_in()


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, b"<html>", "shows no ledger"),
        (200, b"\xff", "no JSON"),
        (200, b"[1]", "no object"),
        (200, b'{"a": 1, "a": 2}', "no JSON"),
        (503, b'{"error": "busy"}', "says: busy"),
        (503, b'{"error": 7}', "status 503"),
        (200, b"{}", "network"),
    ],
)
@trio_test
async def test_whatever_else_answers_is_one_line(
    status: int, body: bytes, words: str
) -> None:
    async def page(_request: PageRequest) -> PageResponse:
        return PageResponse(status=status, body=body)

    async with running_relay(tls_config(), pages={"/ledger/": page}) as relay:
        own = OwnLedger(relay.endpoint("127.0.0.1"), b"n" * 32, Identity.generate())
        with pytest.raises(LedgerAnswerRefused, match=words) as caught:
            await own.log_in()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"vouchers": 1, "next": None}, "no receipts"),
        ({"vouchers": [], "next": 5}, "no receipts"),
        ({"next": None}, "no receipts"),
        ({"vouchers": [{}], "next": 0}, "come to an end"),
        ({"vouchers": [{}], "next": 7}, "come to an end"),
        ({"vouchers": [{}], "next": "1"}, "come to an end"),
        ({"vouchers": [{}], "next": 1}, "come to an end"),  # the same page for ever
    ],
)
@trio_test
async def test_receipts_that_never_end_are_refused(told: dict, words: str) -> None:
    async def page(_request: PageRequest) -> PageResponse:
        return PageResponse(body=json.dumps(told).encode())

    async with running_relay(tls_config(), pages={"/ledger/": page}) as relay:
        own = OwnLedger(relay.endpoint("127.0.0.1"), b"n" * 32, Identity.generate())
        with pytest.raises(LedgerAnswerRefused, match=words):
            await own.receipts("2026-11")


@pytest.mark.parametrize("session", ["", "\x1b[2J", "a\r\nX: y", "a" * 300, 7])
@trio_test
async def test_what_is_no_token_goes_into_no_header_and_no_link(
    session: object,
) -> None:
    told = {
        "challenge": "abc",
        "network": (b"n" * 32).hex(),
        "ledger": bytes(32).hex(),
        "session": session,
    }

    async def page(_request: PageRequest) -> PageResponse:
        return PageResponse(body=json.dumps(told).encode())

    async with running_relay(tls_config(), pages={"/ledger/": page}) as relay:
        own = OwnLedger(relay.endpoint("127.0.0.1"), b"n" * 32, Identity.generate())
        with pytest.raises(LedgerAnswerRefused, match="no session"):
            await own.log_in()
