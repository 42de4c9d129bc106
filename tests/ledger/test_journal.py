"""The journal: read by hledger and beancount, to the micro-credit as the ledger."""

import pytest

from ledger import journal as module
from ledger.accounts import AccountKind
from ledger.balances import balances
from ledger.errors import DifferenceFound
from ledger.journal import account_name, journal_lines
from ledger.periods import ALL_TIME, parse_period
from tests.support.accountants import beancounts, hledgers
from tests.support.books import Books
from tests.support.ledger_world import DAY_US, NOVEMBER_US, World

NOVEMBER, DECEMBER = parse_period("2026-11"), parse_period("2026-12")


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger")
    world = World()
    with world.open(path) as store:
        # A note is whatever somebody wrote: it must not become syntax.
        store.fund(
            world.backbone.id, 10**9, 'x"\n2026-01-01 * "x"\n  A:B  1 CREDIT'
        ).result(60)
        for n in range(2):
            tab = world.tab(store.grant(world.order()).result(60), tab=b"tab-%04d" % n)
            tab.file(store, 0, 1, 2, 3)
    books = Books(world, path)
    with books:
        net = books.close(1, NOVEMBER_US + DAY_US, fee=5, held=20)
        books.settle(1, NOVEMBER_US + 2 * DAY_US)
        books.period("2026-11", 0, 1)
        at_us = NOVEMBER_US + 31 * DAY_US
        books.pay(world.worker.id, at_us, (1, "net", net), state="confirmed")
        books.settle(1, at_us, "forfeit")
    return books


def journal(books, period=ALL_TIME, owner=None):
    with books.reader().session() as connection:
        return "".join(journal_lines(connection, period, owner))


def expected(books, end_us, owner=None):
    """Return what each account must hold at the end, in micro-credits, debit > 0."""
    with books.reader().session() as connection:
        lines = balances(connection, as_of_us=end_us, owner=owner)
    return {
        account_name(line.owner, line.kind): -line.balance_uc
        for line in lines
        if line.balance_uc
    }


@pytest.mark.parametrize("read", [hledgers, beancounts])
def test_another_program_comes_to_the_same_balances(books, read, tmp_path):
    for period in (ALL_TIME, NOVEMBER, DECEMBER):
        found = read(journal(books, period), tmp_path)
        assert found == expected(books, period.end_us)


@pytest.mark.parametrize("read", [hledgers, beancounts])
def test_of_one_worker_its_accounts_come_out_right(books, read, tmp_path):
    worker = books.world.worker.id
    for period in (ALL_TIME, NOVEMBER, DECEMBER):
        found = read(journal(books, period, worker), tmp_path)
        mine = {
            name: sum_uc
            for name, sum_uc in found.items()
            if worker.hex().upper() in name
        }
        assert mine == expected(books, period.end_us, worker)


def test_a_wrong_amount_fails_beancounts_assertions(books, tmp_path):
    from beancount import loader

    text = journal(books)
    wrong = text.replace("  0.000075 CREDIT", "  0.000085 CREDIT").replace(
        "  -0.000075 CREDIT", "  -0.000085 CREDIT"
    )
    assert wrong != text
    path = tmp_path / "x.beancount"
    path.write_text(wrong)
    _, errors, _ = loader.load_file(str(path))
    assert errors


def test_nothing_yet_is_an_empty_journal(books):
    lines = journal(books, parse_period("2025")).splitlines()
    assert all(line.startswith(";") for line in lines)


def test_cooked_books_are_a_difference_and_no_syntax(books, monkeypatch):
    with books:
        point = books.connection.begin_nested()
        books.cook("transfer", "code = 'x\"\n2026-01-01 open A:B' where seq = 1")
        with pytest.raises(DifferenceFound, match="a transfer of kind"):
            list(journal_lines(books.connection, ALL_TIME))
        point.rollback()
        monkeypatch.setattr(module, "_accounts", lambda *_: {})
        with pytest.raises(DifferenceFound, match="moves an unknown account"):
            list(journal_lines(books.connection, ALL_TIME))


def test_every_kind_of_account_has_a_name_of_its_own():
    names = {account_name(b"w" * 32, kind.value) for kind in AccountKind}
    assert len(names) == len(AccountKind)
    with pytest.raises(DifferenceFound):
        account_name(b"", "petty cash")
