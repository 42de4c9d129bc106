"""The operator's terms: shown, set after a look, in JSON and plain columns."""

import pytest

from p2pmoe.cli import ledger_policy as module
from tests.support.ledger_commands import document_of, run, world_with_vouchers


@pytest.fixture
def world(tmp_path, monkeypatch):
    world = world_with_vouchers(tmp_path)

    def operate(data, name, params):
        with world.open(data) as store:
            return store.operate(name, params).result(60)

    monkeypatch.setattr("p2pmoe.cli.ledger_operate.operate", operate)
    return world


def test_a_new_ledger_has_terms_that_take_nothing(world, tmp_path):
    (only,) = document_of(tmp_path, "policy", "show")["policies"]
    assert (only["fee_ppm"], only["holdback_ppm"]) == (0, 0)
    assert (only["dispute_hours"], only["retention_hours"]) == (48, 768)
    assert only["dispute_us"] == 48 * 3_600_000_000
    assert only["since"] == "2026-11-01T00:00:00.000000Z"
    plain = run(tmp_path, "policy", "show").stdout.splitlines()
    assert plain[0].split("\t") == list(module._COLUMNS)


def test_setting_shows_first_and_signs_when_told_to(world, tmp_path):
    words = ("policy", "set", "--fee-ppm", "25000", "--dispute-hours", "72")
    shown = run(tmp_path, *words)
    assert shown.exit_code == 0
    assert "add --commit" in shown.stderr
    assert len(document_of(tmp_path, "policy", "show")["policies"]) == 1
    done = document_of(tmp_path, *words, "--commit")
    assert (done["committed"], done["fee_ppm"], done["dispute_hours"]) == (
        True,
        25_000,
        72,
    )
    newest = document_of(tmp_path, "policy", "show")["policies"][-1]
    assert (newest["fee_ppm"], newest["dispute_hours"]) == (25_000, 72)
    assert "hold already" in run(tmp_path, *words, "--commit").stderr


def test_terms_out_of_bounds_are_wrong_input(world, tmp_path):
    assert run(tmp_path, "policy", "set", "--fee-ppm", "1000001").exit_code == 2
    assert run(tmp_path, "policy", "set", "--dispute-hours", "-1").exit_code == 2
