"""`receipts list` and `verify` on a worker's folder, against a file of the ledger."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from ledger.amounts import parse_credits
from ledger.claims import FiledStatus
from ledger.errors import DifferenceFound, FormatRefused, PeriodRefused
from ledger.receipt_document import receipt_document
from ledger.receipt_states import receipts
from mobile_worker.errors import IdentityError
from mobile_worker.servings.own_copy import OwnCopy, OwnReceipt, read_receipts
from mobile_worker.session.identity import Identity
from p2pmoe.cli import receipts_own
from p2pmoe.cli.receipts import register
from p2pmoe.errors import ConfigurationError
from p2pmoe.network.errors import InviteBroken
from tests.support.ledger_world import NOVEMBER_US, World, seeded_key


def run(*words: object) -> Result:
    app = typer.Typer()
    register(app)
    return CliRunner().invoke(app, ["receipts", *map(str, words)])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A worker's folder with its own copy, and what the ledger prints of it."""
    path = tmp_path_factory.mktemp("own")
    world = World()
    copy = OwnCopy(path / "worker" / "receipts")
    with world.open(path / "ledger") as store:
        tab = world.tab(store.grant(world.order()).result(60))
        for n in range(3):
            signed, leaves = tab.next(2 * n, 2 * n + 1)
            status = store.file(signed, leaves, tab.worker.id).result(60).status
            answered = OwnReceipt(
                signed=signed, status=status, reason="", answered_us=world.now_us
            )
            copy.add(answered)
        with store.reader().session() as connection:
            lines = receipts(connection, worker=tab.worker.id)
    rows = [receipt_document(line, explained=False) for line in lines]
    books = path / "books.json"
    books.write_text(json.dumps({"vouchers": rows}))
    seed = seeded_key(world.worker.name).private_bytes_raw()
    identity = path / "worker" / "identity"
    identity.write_text(Identity.from_seeds(seed, b"s" * 32).text())
    identity.chmod(0o600)
    return path / "worker", books


def test_own_receipts_are_listed(folders):
    worker, _ = folders
    listed = json.loads(run("list", "--data", worker, "--json").stdout)["receipts"]
    assert [row["number"] for row in listed] == [1, 2, 3]
    assert [row["servings"] for row in listed] == [2, 4, 6]
    assert {row["status"] for row in listed} == {"stored"}
    assert run("list", "--data", worker, "--period", "2025").stdout.count("\n") <= 1
    assert "Own receipts" not in run("list", "--data", worker).stderr


def test_books_that_agree_are_verified(folders):
    worker, books = folders
    result = run("verify", "--data", worker, "--books", books, "--json")
    assert result.exit_code == 0, result.output
    values = json.loads(result.stdout)
    assert (values["receipts"], values["servings"], values["differing"]) == (3, 6, 0)
    assert values["amount_uc"] > 0


def test_b33_differing_ids_are_printed_and_the_code_is_1(folders, tmp_path):
    worker, books = folders
    document = json.loads(books.read_text())
    lost = document["vouchers"].pop()
    cooked = tmp_path / "books.json"
    cooked.write_text(json.dumps(document))
    result = run("verify", "--data", worker, "--books", cooked, "--json")
    assert isinstance(result.exception, DifferenceFound)
    (difference,) = json.loads(result.stdout)["differences"]
    assert difference["voucher"] == lost["voucher"]
    shown = run("verify", "--data", worker, "--books", cooked)
    assert lost["voucher"] in shown.stdout


def test_receipts_of_other_workers_are_not_looked_at(folders, tmp_path):
    worker, books = folders
    document = json.loads(books.read_text())
    stranger = document["vouchers"][0] | {"worker": "11" * 32, "voucher": "22" * 32}
    document["vouchers"].append(stranger)
    all_books = tmp_path / "books.json"
    all_books.write_text(json.dumps(document))
    assert run("verify", "--data", worker, "--books", all_books).exit_code == 0


def test_books_of_another_worker_alone_are_told_of(folders, tmp_path):
    worker, books = folders
    document = json.loads(books.read_text())
    for row in document["vouchers"]:
        row["worker"] = "11" * 32
    foreign = tmp_path / "books.json"
    foreign.write_text(json.dumps(document))
    result = run("verify", "--data", worker, "--books", foreign)
    assert isinstance(result.exception, DifferenceFound)
    assert "is of this worker" in result.exception.advice


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", ConfigurationError),
        ("[]", FormatRefused),
        ('{"vouchers": 1}', FormatRefused),
        ('{"vouchers": [], "vouchers": []}', ConfigurationError),
        ("\udcff", ConfigurationError),
    ],
)
def test_books_that_are_none(folders, tmp_path, text, error):
    worker, _ = folders
    path = tmp_path / "books.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    result = run("verify", "--data", worker, "--books", path)
    assert isinstance(result.exception, error)


def test_what_is_missing(folders, tmp_path, monkeypatch):
    worker, books = folders
    monkeypatch.delenv("P2PMOE_INVITE", raising=False)
    nobody = run("list", "--data", tmp_path)
    assert isinstance(nobody.exception, ConfigurationError)
    assert isinstance(
        run("verify", "--data", tmp_path, "--books", books).exception, IdentityError
    )
    gone = run("verify", "--data", worker, "--books", tmp_path / "none")
    assert isinstance(gone.exception, ConfigurationError)
    assert isinstance(
        run("list", "--data", worker, "--period", "2026-13").exception, PeriodRefused
    )
    for command in ("verify", "statement", "login"):
        result = run(command, "--data", worker)
        assert isinstance(result.exception, ConfigurationError | InviteBroken)


@pytest.mark.parametrize("accounts", [{"closing": {"held": "2.000000"}}, {}, 7])
def test_a_statement_says_what_is_held_back(folders, monkeypatch, accounts):
    told = {"worker": "11" * 32, "closing": "3.000000", "accounts": accounts}
    monkeypatch.setattr(receipts_own, "_asking", lambda *_: told)
    result = run("statement", "--data", folders[0])
    assert result.exit_code == 0, result.output
    assert "closing\t3.000000" in result.stdout
    assert ("held\t2.000000" in result.stdout) == bool(accounts and accounts != 7)


def test_the_lines_of_a_statement_add_up_to_its_closing(folders, monkeypatch):
    told = {"opening": "9.000000", "earned": "0.500000", "standby": "7.000000"}
    told |= {"fees": "0.020000", "reversed": "0.003000", "penalties": "0.004000"}
    told |= {"rounding": "0.000001", "paid": "6.000000", "closing": "10.472999"}
    monkeypatch.setattr(receipts_own, "_asking", lambda *_: told)
    shown = run("statement", "--data", folders[0]).stdout
    lines = dict(line.split("\t") for line in shown.splitlines()[1:])
    uc = {name: parse_credits(lines[name]) for name in told}
    closing_uc, added = uc.pop("closing"), ("opening", "earned", "standby")
    assert closing_uc == sum(n if name in added else -n for name, n in uc.items())


def test_a_refused_one_is_listed_with_its_reason(folders, tmp_path):
    worker, _ = folders
    copy = OwnCopy(tmp_path / "receipts")
    signed = next(read_receipts(worker / "receipts")).signed
    copy.add(
        OwnReceipt(
            signed=signed,
            status=FiledStatus.REJECTED,
            reason="ceiling: 7 of 5",
            answered_us=NOVEMBER_US,
        )
    )
    (row,) = json.loads(run("list", "--data", tmp_path, "--json").stdout)["receipts"]
    assert (row["status"], row["reason"]) == ("rejected", "ceiling: 7 of 5")
