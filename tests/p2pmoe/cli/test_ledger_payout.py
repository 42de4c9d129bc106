"""Payouts from the command line: dry by default, twice is once, exit codes."""

import pytest

from ledger.errors import NotFound, PayoutRefused
from p2pmoe.errors import ConfigurationError
from p2pmoe.payouts.errors import SendingBusy
from p2pmoe.payouts.sending import sending_right
from tests.support.ledger_commands import document_of, run
from tests.support.paid_world import RATE, PaidWorld, copied
from tests.support.payout_orders import IBAN


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return PaidWorld(tmp_path_factory.mktemp("paid") / "ledger")


@pytest.fixture
def world(template, tmp_path):
    world = copied(template, tmp_path / "ledger")
    world.payees = tmp_path / "payees.csv"
    rows = [f"{one.id.hex()},{one.name},{IBAN},\n" for one in world.workers]
    world.payees.write_text("worker,name,iban,bic\n" + "".join(rows))
    return world


def prepare(world, *words):
    options = ("--period", "2026-11", "--payees", str(world.payees), "--rate", RATE)
    return document_of(world.path, "payout", "prepare", *options, *words)


def listed(world, *words):
    result = run(world.path, "payout", "list", *words)
    return result, [line.split("\t") for line in result.stdout.splitlines()[1:]]


def test_preparing_is_said_then_done_then_nothing(world):
    planned = prepare(world)
    assert listed(world)[1] == []
    done = prepare(world, "--commit")
    assert done == planned | {"committed": True}
    assert len(listed(world)[1]) == 3
    again = prepare(world, "--commit")
    assert (again["payouts"], again["skipped"]) == ([], [])
    options = ("--period", "2026-11", "--payees", str(world.payees), "--rate", RATE)
    result = run(world.path, "payout", "prepare", *options)
    assert result.exit_code == 0
    assert "nothing to pay" in result.stderr


def test_a_bad_line_in_the_payee_file_is_the_reason(world):
    text = world.payees.read_text().replace(IBAN, IBAN[:-1] + "1", 1)
    world.payees.write_text(text)
    done = prepare(world, "--commit")
    assert len(done["payouts"]) == 2
    assert "typing error" in done["skipped"][0]["reason"]
    options = ("--period", "2026-11", "--payees", str(world.payees), "--rate", RATE)
    text = run(world.path, "payout", "prepare", *options).stdout
    assert "typing error" in text


def test_who_cannot_be_paid_so_is_left_out(world):
    done = prepare(world, "--adapter", "http")
    assert done["payouts"] == []
    assert "has no id" in done["skipped"][0]["reason"]


def test_a_payout_is_shown_voided_and_found_by_its_first_digits(world):
    (first, *_) = prepare(world, "--commit")["payouts"]
    shown = document_of(world.path, "payout", "show", first["id"][:12])
    assert (shown["id"], shown["state"]) == (first["id"], "prepared")
    assert [step["state"] for step in shown["steps"]] == ["prepared"]
    assert "Ada" not in run(world.path, "payout", "show", first["id"]).stdout
    dry = run(world.path, "payout", "void", first["id"][:12])
    assert "add --commit" in dry.stderr
    assert document_of(world.path, "payout", "show", first["id"])["state"] == "prepared"
    words = ("payout", "void", first["id"][:12], "--reason", "typo", "--commit")
    done = document_of(world.path, *words)
    assert (done["state"], done["committed"]) == ("void", True)
    assert "it was so before" in run(world.path, *words).stderr
    shown = document_of(world.path, "payout", "show", first["id"])
    assert (shown["state"], shown["detail"]) == ("void", "typo")


def test_what_is_unresolved_makes_exit_code_3(world):
    (first, *_) = prepare(world, "--commit")["payouts"]
    with world.open(world.path) as store:
        named = [{"id": first["id"]}]
        store.operate("payout.start", {"payouts": named}).result(60)
        store.operate("payout.recover", {}).result(60)
    result, rows = listed(world)
    assert (result.exit_code, len(rows)) == (3, 3)
    assert listed(world, "--state", "prepared", "--period", "2026-11")[0].exit_code == 0
    refused = run(world.path, "payout", "confirm", first["id"], "--commit")
    assert isinstance(refused.exception, PayoutRefused)
    done = document_of(
        world.path, "payout", "resolve", first["id"], "--not-paid", "--commit"
    )
    assert done["state"] == "failed"
    assert listed(world)[0].exit_code == 0


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("list", "--state", "lost"), ConfigurationError),
        (("list", "--period", "2026-10"), NotFound),
        (("show", "00000000"), NotFound),
        (("void", "00000000", "--commit"), NotFound),
        (("resolve", "00000000", "--commit"), ConfigurationError),
    ],
)
def test_wrong_words_are_refused(template, words, error):
    assert isinstance(run(template.path, "payout", *words).exception, error)


def test_nobody_decides_while_another_sends(world):
    (first, *_) = prepare(world, "--commit")["payouts"]
    with sending_right(world.path):
        result = run(world.path, "payout", "void", first["id"], "--commit")
    assert isinstance(result.exception, SendingBusy)
