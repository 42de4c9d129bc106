"""`p2pmoe ledger statement`, in every format and any zone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ledger_commands import document_of, run, world_with_vouchers


@pytest.fixture
def world(tmp_path):
    return world_with_vouchers(tmp_path)


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
