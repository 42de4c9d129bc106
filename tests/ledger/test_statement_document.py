"""A statement as JSON and CSV: complete, exact, and the same sums as the statement."""

import csv
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.amounts import format_credits
from ledger.periods import ALL_TIME, parse_period
from ledger.statement_document import (
    STATEMENT_COLUMNS,
    amounts,
    statement_csv,
    statement_document,
)
from ledger.statements import statement
from tests.support.books import Books
from tests.support.ledger_world import NOVEMBER_US, World

NOVEMBER = parse_period("2026-11")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger")
    world = World()
    with world.open(path) as store:
        issued = store.grant(world.order()).result(60)
        for n in range(3):
            world.tab(issued, tab=b"tab-%04d" % n).file(store, 0, 1, 2, 13)
    with Books(world, path) as books:
        net = books.close(1, NOVEMBER_US + 10, fee=5)
        books.close(2, NOVEMBER_US + 10, fee=5, held=20)
        books.settle(1, NOVEMBER_US + 20)
        books.settle(2, NOVEMBER_US + 20, "reverse")
        books.period("2026-11", NOVEMBER.start_us, NOVEMBER.end_us)
        worker = world.worker.id
        books.pay(
            worker, NOVEMBER_US + 30, (1, "net", net), state="sent", rounding_uc=3
        )
        books.checkpoint(2, NOVEMBER_US + 30)
        books.one_sided(50, NOVEMBER_US + 30)
        return [
            statement(books.connection, worker, span) for span in (NOVEMBER, ALL_TIME)
        ]


def test_everything_is_there_and_adds_up(found):
    document = statement_document(found[0])
    assert json.loads(json.dumps(document)) == document
    assert document["closing_uc"] == (
        document["opening_uc"]
        + document["earned_uc"]
        - document["fees_uc"]
        - document["reversed_uc"]
        - document["penalties_uc"]
        - document["rounding_uc"]
        - document["paid_uc"]
    )
    assert document["base_uc"] + document["scarcity_uc"] == document["earned_uc"]
    closing = document["accounts"]["closing"]
    assert document["closing_uc"] == sum(
        value for name, value in closing.items() if name.endswith("_uc")
    )
    receipts = document["receipts"]
    assert receipts["total"] == 4
    for key in ("receipts", "amount_uc"):
        total = sum(line[key] for line in receipts["lines"])
        assert total == sum(each[key] for each in receipts["by_state"].values())
    assert receipts["amount_uc"] == document["earned_uc"] + 50  # one-sided
    assert document["checkpoint"]["size"] == 2
    assert document["closed"]["name"] == "2026-11"
    (payout,) = document["payouts"]
    assert (payout["state"], payout["rounding_uc"]) == ("sent", 3)
    assert document["accounts"]["closing"]["available_uc"] == 3
    assert document["rejected"] == [
        {
            "reason": "reversed",
            "vouchers": 1,
            "claimed_uc": document["earned_uc"] // 3,
        }
    ]


def check_amounts(value):
    """Every integer amount has its decimal string beside it."""
    if isinstance(value, list):
        for each in value:
            check_amounts(each)
    if isinstance(value, dict):
        for name, each in value.items():
            check_amounts(each)
            if name.endswith("_uc") and name != "claimed_uc":
                assert value[name.removesuffix("_uc")] == format_credits(each)


def test_amounts_are_given_twice_and_nothing_is_a_float(found):
    document = statement_document(found[0])
    check_amounts(document)
    texts: list[str] = []
    json.loads(json.dumps(document), parse_float=texts.append)
    assert texts == []


def test_the_csv_says_the_same(found):
    rows = list(csv.DictReader(statement_csv(iter(found))))
    assert tuple(rows[0]) == STATEMENT_COLUMNS
    assert len({row["period_start"] for row in rows}) == 2
    document = statement_document(found[0])
    in_november = [row for row in rows if row["period_start"].startswith("2026-11-01")]
    summary = {
        row["name"]: int(row["amount_uc"])
        for row in in_november
        if row["section"] == "summary"
    }
    assert all(document[f"{name}_uc"] == value for name, value in summary.items())
    receipts = [row for row in in_november if row["section"] == "receipts"]
    assert (
        sum(int(row["receipts"]) for row in receipts) == document["receipts"]["total"]
    )
    assert all(row["amount"] == format_credits(int(row["amount_uc"])) for row in rows)


def test_no_statements_are_a_header():
    assert list(statement_csv(iter([]))) == [",".join(STATEMENT_COLUMNS) + "\n"]


@given(st.integers(-(2**70), 2**70))
def test_amounts(value_uc):
    assert amounts(x=value_uc) == {"x_uc": value_uc, "x": format_credits(value_uc)}
