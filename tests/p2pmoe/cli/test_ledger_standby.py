"""`ledger standby`: the pot shown and filled, papers and pays listed."""

import pytest

from tests.support.honest_books import copy_of_honest_books
from tests.support.ledger_commands import document_of, run
from tests.support.ledger_world import Party


@pytest.fixture
def world(tmp_path, monkeypatch):
    world = copy_of_honest_books(tmp_path / "books")

    def operate(data, name, params):
        with world.open(data) as store:
            return store.operate(name, params).result(60)

    monkeypatch.setattr("p2pmoe.cli.ledger_operate.operate", operate)
    return world


def test_the_pot_and_its_papers(world, tmp_path):
    document = document_of(tmp_path / "books", "standby", "report")
    assert document["pot_uc"] == 5005 - 3330
    assert [each["paid_uc"] for each in document["papers"]] == [1998, 1332]
    shown = run(tmp_path / "books", "standby", "report")
    assert "the pot holds 0.001675 credits" in shown.stderr
    assert len(shown.stdout.splitlines()) == 3


def test_what_one_worker_got(world, tmp_path):
    worker = ("--worker", Party("ada").id.hex())
    document = document_of(tmp_path / "books", "standby", "report", *worker)
    assert [each["amount_uc"] for each in document["pays"]] == [999, 666]
    later = ("--period", "2027")
    assert document_of(tmp_path / "books", "standby", "report", *later)["papers"] == []


def test_filling_shows_first_and_does_it_once_when_told_to(world, tmp_path):
    words = ("standby", "fund", "0.5", "--from", "outside", "--note", "winter")
    assert "add --commit" in run(tmp_path / "books", *words).stderr
    done = document_of(tmp_path / "books", *words, "--commit")
    assert (done["new"], done["pot_uc"]) == (True, 501_675)
    assert "booked before" in run(tmp_path / "books", *words, "--commit").stderr
    assert document_of(tmp_path / "books", "standby", "report")["pot_uc"] == 501_675


@pytest.mark.parametrize(
    "words",
    [
        ("-1", "--note", "n"),
        ("0.0000001", "--note", "n"),
        ("many", "--note", "n"),
        ("1", "--note", "n", "--from", "the moon"),
        ("1", "--note", "n", "--from", "fees"),
        ("1",),
    ],
)
def test_other_words_are_wrong_input(world, tmp_path, words):
    result = run(tmp_path / "books", "standby", "fund", *words)
    assert result.exit_code != 0


def test_prices_of_an_epoch_say_how_scarce_experts_were(world, tmp_path):
    rows = document_of(tmp_path / "books", "prices", "--epoch", "7")["prices"]
    assert [row["expert"] for row in rows] == ["all others", "1/3"]
    assert rows[0]["target"] == ""
    assert (rows[1]["demand"], rows[1]["target"], rows[1]["coverage"]) == (5, "2", "3")
