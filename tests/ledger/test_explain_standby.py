"""Why standby pay moved: down to replicas, shares and scarcity."""

from types import SimpleNamespace

import pytest
from sqlalchemy import select

from ledger.database import Reader
from ledger.errors import DifferenceFound
from ledger.explain import explain
from ledger.schema import transfer
from tests.support.honest_books import copy_of_honest_books


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explained") / "books"
    copy_of_honest_books(folder)
    return Reader(folder)


def explained(reader, code):
    with reader.session() as connection:
        moved = connection.execute(
            select(transfer).where(transfer.c.code == code).order_by(transfer.c.seq)
        ).first()
        return moved, explain(connection, reader.folder, moved)


def test_standby_pay_down_to_each_replica(reader):
    moved, told = explained(reader, "standby")
    paper = next(step for step in told.steps if step.title == "standby paper")
    replicas = [step.facts for step in told.steps if step.title == "replica"]
    assert [facts["expert"] for facts in replicas] == ["1/3", "2/1"]
    assert replicas[0]["multiplier"] == "2"
    for facts in replicas:
        amount = paper.facts["pot_uc"] * int(facts["multiplier"]) // 6
        assert facts["amount_uc"] == amount  # sum(m T) is 2*2 + 1*2, R is T
    total = sum(facts["amount_uc"] for facts in replicas)
    assert moved.amount_uc == total == told.steps[-1].facts["sum_uc"]


@pytest.mark.parametrize(
    ("code", "note", "what"),
    [("endow", "a gift", "credit"), ("allot", "of fees", "fees")],
)
def test_where_the_pot_comes_from(reader, code, note, what):
    _, told = explained(reader, code)
    assert told.steps[-1].title.startswith(what)
    assert told.steps[-1].facts["note"] == note


def test_a_payout_says_how_much_of_it_is_standby_pay(reader):
    _, told = explained(reader, "pay")
    titles = [step.title for step in told.steps]
    facts = told.steps[-1].facts
    assert "standby pay" in titles
    assert facts["standby"] == 2
    assert 0 <= facts["rounding_uc"] < 30


def test_an_explanation_adds_up_or_there_is_none(reader):
    with reader.session() as connection:
        row = connection.execute(
            select(transfer).where(transfer.c.code == "standby")
        ).first()
        for change, found in (
            ({"amount_uc": 1}, "replicas of"),
            ({"reference": b"?"}, "paper is missing"),
        ):
            moved = SimpleNamespace(**{**row._mapping, **change})
            with pytest.raises(DifferenceFound, match=found):
                explain(connection, reader.folder, moved)
