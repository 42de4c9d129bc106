"""Sending from the command line: files for the bank, posts to a callback."""

import json
from pathlib import Path

import httpx
import pytest

from p2pmoe.errors import ConfigurationError
from p2pmoe.payouts import http as http_module
from tests.support.ledger_commands import document_of, run
from tests.support.paid_world import RATE, PaidWorld, copied, payee_rows
from tests.support.payout_orders import IBAN


def prepare(world, store):
    """Two payouts for the bank and two for a callback."""
    rows = payee_rows(*world.workers)
    for adapter, payees in (("bank", rows[:2]), ("http", rows[2:])):
        params = {"period": "2026-11", "adapter": adapter, "rate": RATE}
        params |= {"payees": payees, "commit": True}
        store.operate("payout.prepare", params).result(60)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return PaidWorld(tmp_path_factory.mktemp("paid") / "ledger", 4, prepare)


@pytest.fixture
def world(template, tmp_path):
    world = copied(template, tmp_path / "ledger")
    world.payees = tmp_path / "payees.csv"
    rows = [
        f"{one.id.hex()},{one.name},{IBAN},acct_{n}\n"
        for n, one in enumerate(world.workers)
    ]
    world.payees.write_text("worker,name,iban,id\n" + "".join(rows))
    world.output = tmp_path / "out"
    world.output.mkdir()
    return world


def send_words(world, *words):
    return ("payout", "send", "--payees", str(world.payees), *words)


def bank_words(world, *words):
    account = ("--debtor-name", "Net", "--debtor-iban", IBAN)
    return send_words(world, "--output", str(world.output), *account, *words)


def test_the_bank_gets_one_file(world):
    dry = document_of(world.path, *bank_words(world))
    assert [row["detail"] for row in dry["payouts"]] == ["would be sent"] * 2
    assert list(world.output.iterdir()) == []
    done = document_of(world.path, *bank_words(world, "--commit"))
    assert [row["state"] for row in done["payouts"]] == ["sent", "sent"]
    xml, table = done["files"]
    assert xml.endswith(".xml")
    assert table.endswith(".csv")
    text = Path(xml).read_text()
    assert all(row["id"] in text for row in done["payouts"])
    again = run(world.path, *bank_words(world, "--commit"))
    assert again.exit_code == 0
    assert "nothing to send" in again.stderr
    assert len(list(world.output.iterdir())) == 2


@pytest.fixture
def answers(monkeypatch):
    """What the callback answers, one after the other; what it was asked."""
    made, asked = [], []

    def handler(request):
        asked.append(request)
        answer = made.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    client = httpx.Client
    monkeypatch.setattr(
        http_module.httpx,
        "Client",
        lambda **options: client(
            **options | {"transport": httpx.MockTransport(handler)}
        ),
    )
    return made, asked


def http_words(world, tmp_path, *words):
    token = tmp_path / "token"
    token.write_text("s3cret")
    token.chmod(0o600)
    way = ("--adapter", "http", "--url", "https://pay.example/p")
    return send_words(world, *way, "--token-file", str(token), *words)


def test_the_callback_gets_one_post_each(world, tmp_path, answers):
    made, asked = answers
    made += [httpx.Response(200, json={"reference": "R"}), httpx.Response(400)]
    result = run(world.path, *http_words(world, tmp_path, "--commit"), "--json")
    assert result.exit_code == 1
    assert "1 payouts failed" in result.stderr
    done = json.loads(result.stdout)
    assert [row["state"] for row in done["payouts"]] == ["sent", "failed"]
    keys = [request.headers["Idempotency-Key"] for request in asked]
    assert keys == [row["id"] for row in done["payouts"]]
    assert "s3cret" not in str(done)


def test_a_time_out_is_exit_code_3_and_is_never_sent_again(world, tmp_path, answers):
    made, asked = answers
    made += [httpx.ReadTimeout("slow"), httpx.Response(200)]
    words = http_words(world, tmp_path, "--commit", "--json")
    first = run(world.path, *words)
    assert first.exit_code == 3
    assert "1 payouts were not sent and stay prepared" in first.stderr
    second = run(world.path, *words)
    assert second.exit_code == 0  # the other one; the first is not touched
    assert len({request.headers["Idempotency-Key"] for request in asked}) == 2
    assert run(world.path, *words).exit_code == 0
    assert len(asked) == 2
    assert run(world.path, "payout", "list").exit_code == 3


def test_what_a_killed_command_left_is_exit_code_3(world):
    rows = document_of(world.path, "payout", "list")["payouts"]
    one = next(row for row in rows if row["adapter"] == "bank")
    with world.open(world.path) as store:
        store.operate("payout.start", {"payouts": [{"id": one["id"]}]}).result(60)
    result = run(world.path, *bank_words(world, "--commit"))
    assert result.exit_code == 3
    assert f"payout {one['id']} of an earlier run is unresolved" in result.stderr
    assert one["id"] not in "".join(path.read_text() for path in world.output.iterdir())


def test_wrong_words_are_refused(world, tmp_path):
    for words in (
        send_words(world, "--adapter", "cash"),
        send_words(world),
        send_words(world, "--adapter", "http"),
        send_words(world, "--debtor-name", "Net", "--debtor-iban", "DE00"),
        bank_words(world, "--on", "2026-12"),
        bank_words(world, "--output", str(tmp_path / "none")),
        send_words(world, "--adapter", "http", "--url", "http://pay.example"),
    ):
        result = run(world.path, *words)
        assert isinstance(result.exception, ConfigurationError), words
