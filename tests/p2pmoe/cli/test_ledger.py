"""`p2pmoe ledger`: every command, in JSON and in plain columns."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ledger.errors import DifferenceFound, LedgerError, StoreUnavailable
from p2pmoe.cli.ledger import register
from p2pmoe.errors import ConfigurationError
from tests.support.ledger_world import World

COMMANDS = (
    "balance",
    "trial-balance",
    "statement",
    "receipts",
    "receipt",
    "verify",
    "export",
)


@pytest.fixture
def world(tmp_path) -> World:
    world = World()
    with world.open(tmp_path) as store:
        tab = world.tab(store.grant(world.order(ceiling_uc=5000)).result(5))
        tab.file(store, 0, 1, 2)
        tab.file(store, 3)
        signed = tab.sign(tab.previous)
        forged = type(signed)(
            raw=signed.raw, worker_signature=bytes(64), backbone_signature=bytes(64)
        )
        store.file(forged, b"", tab.worker.id).result(5)  # its own, so it counts
        world.earned_uc = tab.previous.amount_uc
    return world


def run(tmp_path, *words):
    app = typer.Typer()
    register(app)
    return CliRunner().invoke(app, ["ledger", *words, "--data", str(tmp_path)])


def document_of(tmp_path, *words):
    result = run(tmp_path, *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_balance(world, tmp_path):
    accounts = document_of(tmp_path, "balance")["accounts"]
    assert sum(each["balance_uc"] for each in accounts) == 0
    worker = world.worker.id.hex()
    (one,) = document_of(tmp_path, "balance", "--account", worker[:8])["accounts"]
    assert one == {
        "account": worker,
        "kind": "worker_pending",
        "balance_uc": world.earned_uc,
        "balance": f"0.{world.earned_uc:06d}",
    }
    before = document_of(tmp_path, "balance", "--as-of", "2026-11")["accounts"]
    assert {each["balance_uc"] for each in before} == {0}
    plain = run(tmp_path, "balance").stdout.splitlines()
    assert plain[0] == "account\tkind\tbalance_uc\tbalance"
    assert len(plain) == 5


def test_trial_balance(world, tmp_path):
    document = document_of(tmp_path, "trial-balance")
    assert document["balanced"] is True
    assert document["debits_uc"] == document["credits_uc"] > 0
    assert run(tmp_path, "trial-balance").stdout.splitlines()[-1].startswith("total\t")


def test_statement(world, tmp_path):
    worker = world.worker.id.hex()
    document = document_of(
        tmp_path, "statement", "--worker", worker, "--period", "2026-11"
    )
    assert document["earned_uc"] == document["closing_uc"] == world.earned_uc
    assert document["period"]["start"] == "2026-11-01T00:00:00.000000Z"
    assert document["period"]["end"] == "2026-12-01T00:00:00.000000Z"
    assert (document["vouchers"], document["servings"]) == (2, 4)
    assert document["rejected"] == [
        {"reason": "signature", "vouchers": 1, "claimed_uc": world.earned_uc}
    ]
    everyone = document_of(tmp_path, "statement")["statements"]
    assert [each["worker"] for each in everyone] == [worker]
    plain = run(tmp_path, "statement", "--period", "2026-11").stdout
    # B38: both borders are printed.
    assert "[2026-11-01T00:00:00.000000Z, 2026-12-01T00:00:00.000000Z)" in plain
    assert "rejected: signature\t1 vouchers" in plain


def test_receipts(world, tmp_path):
    lines = document_of(tmp_path, "receipts")["vouchers"]
    assert [line["status"] for line in lines].count("stored") == 2
    rejected = document_of(tmp_path, "receipts", "--status", "rejected")["vouchers"]
    assert [line["reason"] for line in rejected] == ["signature"]
    other = document_of(tmp_path, "receipts", "--period", "2025")["vouchers"]
    assert other == []
    worker = world.worker.id.hex()
    assert len(document_of(tmp_path, "receipts", "--worker", worker)["vouchers"]) == 3
    assert run(tmp_path, "receipts").stdout.startswith("time\tstatus\treason\t")
    wrong = run(tmp_path, "receipts", "--status", "lost")
    assert isinstance(wrong.exception, ConfigurationError)


def test_verify(world, tmp_path):
    document = document_of(tmp_path, "verify")
    assert document["verified"] is True
    assert (document["receipts"], document["vouchers"]) == (4, 1)
    assert document["earned_uc"] == world.earned_uc
    assert "verified\tTrue" in run(tmp_path, "verify").stdout
    path = tmp_path / "leaves" / "00000001.leaves"
    raw = bytearray(path.read_bytes())
    raw[20] ^= 1
    path.write_bytes(raw)
    result = run(tmp_path, "verify", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["verified"] is False
    assert "root" in document["difference"]
    plain = run(tmp_path, "verify")
    assert isinstance(plain.exception, DifferenceFound)


def test_export(world, tmp_path):
    result = run(tmp_path, "export", "--csv", "--period", "2026-11")
    rows = list(csv.DictReader(result.stdout.splitlines()))
    earned = [int(r["amount_uc"]) for r in rows if r["code"] == "earn"]
    assert sum(earned) == world.earned_uc
    assert isinstance(run(tmp_path, "export").exception, ConfigurationError)


def test_wrong_input_is_one_line_with_exit_2(world, tmp_path):
    for words in (
        ("statement", "--period", "last month"),
        ("statement", "--worker", "nobody"),
        ("balance", "--as-of", "now"),
    ):
        error = run(tmp_path, *words).exception
        assert isinstance(error, LedgerError)
        assert error.exit_code == 2
        assert "\n" not in str(error)
    nothing = run(tmp_path / "nowhere", "balance").exception
    assert isinstance(nothing, StoreUnavailable)


def test_every_command_has_help():
    app = typer.Typer()
    register(app)
    listed = CliRunner().invoke(app, ["ledger", "--help"]).stdout
    for command in COMMANDS:
        assert command in listed
        result = CliRunner().invoke(app, ["ledger", command, "--help"])
        assert result.exit_code == 0


def test_b38_output_is_the_same_in_every_zone(world, tmp_path):
    code = (
        "import typer, sys; from p2pmoe.cli.ledger import register; "
        "app = typer.Typer(); register(app); app(sys.argv[1:])"
    )
    words = ["ledger", "statement", "--period", "2026-11", "--data", str(tmp_path)]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, *words],
            env={**os.environ, "TZ": zone},
            cwd=Path(__file__).resolve().parents[3],
            capture_output=True,
            check=True,
        ).stdout
        for zone in ("UTC", "Pacific/Kiritimati", "America/Los_Angeles")
    }
    assert len(outputs) == 1
