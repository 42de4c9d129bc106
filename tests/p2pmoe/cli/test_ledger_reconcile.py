"""The bank's statement from the command line: confirmed once, differences listed."""

import json

import pytest

from p2pmoe.payouts.errors import StatementBroken
from tests.support.bank_statements import camt053, entry, transaction
from tests.support.ledger_commands import document_of, run
from tests.support.paid_world import RATE, PaidWorld, copied, payee_rows
from tests.support.payout_orders import order


def send(world, store):
    """Two payouts that were sent, and one of which nobody knows."""
    params = {"period": "2026-11", "adapter": "bank", "rate": RATE, "commit": True}
    params["payees"] = payee_rows(*world.workers)
    done = store.operate("payout.prepare", params).result(60)["payouts"]
    ids = [{"id": one["id"]} for one in done]
    store.operate("payout.start", {"payouts": ids}).result(60)
    states = ("sent", "sent", "unresolved")
    outcomes = [one | {"state": state} for one, state in zip(ids, states, strict=True)]
    store.operate("payout.record", {"outcomes": outcomes}).result(60)
    world.payouts = done


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return PaidWorld(tmp_path_factory.mktemp("paid") / "ledger", 3, send)


@pytest.fixture
def world(template, tmp_path):
    world = copied(template, tmp_path / "ledger")
    world.statement = tmp_path / "statement.xml"
    return world


def book(world, *numbers, amount=None):
    """Write a statement on which these payouts are booked."""
    entries = []
    for n in numbers:
        one = world.payouts[n]
        paid = transaction(order(int(one["id"], 16)), ref=f"T-{n}")
        entries.append(entry(paid, amount=amount or one["money"]))
    world.statement.write_bytes(camt053(*entries))


def reconcile(world, *words):
    return run(world.path, "reconcile", "--bank", str(world.statement), *words)


def states(world):
    rows = json.loads(run(world.path, "payout", "list", "--json").stdout)["payouts"]
    by_id = {row["id"]: row for row in rows}
    return [by_id[one["id"]]["state"] for one in world.payouts]


def test_what_arrived_is_confirmed_once(world):
    book(world, 0)
    dry = reconcile(world)
    assert dry.exit_code == 0
    assert "arrived (confirm with --commit)\t1" in dry.stdout
    assert states(world) == ["sent", "sent", "unresolved"]
    words = ("reconcile", "--bank", str(world.statement), "--commit")
    done = document_of(world.path, *words)
    assert [one["reference"] for one in done["arrived"]] == ["T-0"]
    assert [one["id"] for one in done["open"]] == [world.payouts[1]["id"]]
    assert states(world) == ["confirmed", "sent", "unresolved"]
    again = document_of(world.path, *words)
    assert (again["arrived"], again["confirmed_before"]) == ([], 1)


def test_what_does_not_fit_is_exit_code_1(world):
    book(world, 0, amount="999.99")
    result = reconcile(world, "--commit")
    assert result.exit_code == 1
    assert "has paid 999.99 EUR" in result.stdout
    assert states(world) == ["sent", "sent", "unresolved"]


def test_what_is_unresolved_is_exit_code_3_and_stays_so(world):
    book(world, 0, 2)
    assert reconcile(world, "--commit").exit_code == 3
    assert states(world) == ["confirmed", "sent", "unresolved"]


def test_a_reference_of_another_payout_is_a_difference(world):
    book(world, 0)
    reconcile(world, "--commit")
    one = world.payouts[1]
    paid = transaction(order(int(one["id"], 16)), ref="T-0")
    world.statement.write_bytes(camt053(entry(paid, amount=one["money"])))
    result = reconcile(world, "--commit", "--json")
    assert result.exit_code == 1
    (row,) = json.loads(result.stdout)["differences"]
    assert "reference 'T-0' is of payout" in row["reason"]


def test_a_broken_statement_is_refused(world):
    world.statement.write_bytes(b"<a>")
    assert isinstance(reconcile(world).exception, StatementBroken)
