"""Why value moved, down to the leaves; what does not add up is a difference."""

import pytest
from sqlalchemy import select

from ledger.database import LedgerFolder
from ledger.errors import DifferenceFound, NotFound
from ledger.explain import explain, find_transfer
from ledger.leaf import LEAF_BYTES
from ledger.leaf_files import mark_pruned
from ledger.policy import Policy
from ledger.schema import transfer
from ledger.schema_closing import closing
from tests.support.books import Books
from tests.support.ledger_world import NOVEMBER_US, World

POLICY = Policy(fee_ppm=50_000, holdback_ppm=200_000)


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger")
    world = World()
    with world.open(path, release_after_us=0) as store:
        issued = store.grant(world.order()).result(60)
        for n in range(2):
            tab = world.tab(issued, tab=b"tab-%04d" % n)
            tab.file(store, 0, 1, 13)
            tab.file(store, 2, 3)
        world.amount_uc = tab.previous.amount_uc
    books = Books(world, path, policy=POLICY)
    split = POLICY.split(world.amount_uc)
    with books:
        net = books.close(1, NOVEMBER_US + 10, fee=split.fee_uc, held=split.held_uc)
        books.settle(1, NOVEMBER_US + 20)
        books.settle(1, NOVEMBER_US + 30, "unhold")
        books.period("2026-11", 0, 1)
        items = [(1, "net", net), (1, "holdback", split.held_uc)]
        at_us = NOVEMBER_US + 40
        books.pay(world.worker.id, at_us, *items, state="confirmed", rounding_uc=2)
        books.close(2, NOVEMBER_US + 50, fee=split.fee_uc, held=split.held_uc)
        books.dispute(2, NOVEMBER_US + 60)
        books.settle(2, NOVEMBER_US + 70, "reverse")
        books.settle(2, NOVEMBER_US + 70, "forfeit")
    return books


def rows(books):
    with books.reader().session() as connection:
        return connection.execute(select(transfer).order_by(transfer.c.seq)).all()


def told(books, text):
    reader = books.reader()
    with reader.session() as connection:
        return explain(connection, reader.folder, find_transfer(connection, text))


def facts(explanation, title):
    return [step.facts for step in explanation.steps if step.title == title]


def test_every_transfer_is_explained(books):
    titles = {}
    for row in rows(books):
        found = told(books, row.id.hex())
        titles.setdefault(row.code, [step.title for step in found.steps])
    closed = ["transfer", "closed voucher", "policy", "prices", "leaves"]
    disputed = [*closed[:3], "dispute", *closed[3:]]
    paid = ["transfer", "payout", "part", "part", "parts"]
    assert titles == {
        "fund": ["transfer", "credit that the operator gave"],
        "reserve": ["transfer", "grant"],
        "earn": ["transfer", "voucher", "grant", "prices", "leaves"],
        "fee": closed,
        "hold": closed,
        "settle": closed,
        "unhold": closed,
        "pay": paid,
        "paid": paid,
        "reverse": disputed,
        "forfeit": disputed,
    }


def test_an_earning_is_its_leaves(books):
    row = next(row for row in rows(books) if row.code == "earn")
    found = told(books, row.id.hex()[:8])
    assert [line.serving for line in found.leaves] == [0, 1, 13]
    assert sum(line.amount_uc for line in found.leaves) == row.amount_uc
    dear = found.leaves[2]
    assert (dear.layer, dear.expert, dear.unit_price_uc) == (1, 3, 15)
    assert all(
        line.rows * line.unit_price_uc == line.amount_uc for line in found.leaves
    )


def test_a_fee_is_a_fraction_of_all_leaves(books):
    row = next(row for row in rows(books) if row.code == "fee")
    found = told(books, str(row.seq))
    amount_uc = books.world.amount_uc
    assert sum(line.amount_uc for line in found.leaves) == amount_uc
    (terms,) = facts(found, "policy")
    assert terms["fee"] == f"{amount_uc} * 50000 // 1000000"
    assert amount_uc * 50000 // 1000000 == row.amount_uc


def test_a_payout_is_found_by_its_own_id_and_leads_on(books):
    paying = next(row for row in rows(books) if row.code == "pay")
    found = told(books, paying.reference.hex())
    (head,) = facts(found, "transfer")
    assert head["transfer"] == paying.id.hex()
    parts = facts(found, "part")
    (sums,) = facts(found, "parts")
    assert sums["sum_uc"] - sums["rounding_uc"] == paying.amount_uc
    for part in parts:
        leads_to = told(books, part["transfer"])
        (step,) = facts(leads_to, "transfer")
        assert step["amount_uc"] == part["amount_uc"]


def test_what_names_no_transfer(books):
    some = rows(books)[0].id.hex()
    for text in (
        "",
        "0",
        "999",
        "xyz",
        some[:7],
        some + "00",
        "00" * 16,
        "²",
        "8" * 40,
    ):
        with pytest.raises(NotFound):
            told(books, text)


def test_cooked_books_are_a_difference(books):
    row = next(row for row in rows(books) if row.code == "fee")
    reader = books.reader()
    leaves = reader.folder.leaves / "00000001.leaves"
    raw = leaves.read_bytes()
    wrong = bytearray(raw)
    wrong[26] ^= 6  # the rows of the first leaf
    try:
        leaves.write_bytes(wrong)
        with pytest.raises(DifferenceFound, match="leaves of"):
            told(books, row.id.hex())
        wrong[0] = 9  # no version of a leaf
        leaves.write_bytes(wrong)
        with pytest.raises(DifferenceFound, match="version 9"):
            told(books, row.id.hex())
        leaves.write_bytes(raw[:LEAF_BYTES])
        with pytest.raises(DifferenceFound):
            told(books, row.id.hex())
    finally:
        leaves.write_bytes(raw)


@pytest.mark.parametrize(
    ("code", "reference"),
    [("earn", b"?"), ("pay", b"?"), ("fee", b"?"), ("reserve", b"?")],
)
def test_what_a_transfer_is_based_on_may_be_missing(books, code, reference):
    row = next(row for row in rows(books) if row.code == code)
    reader = books.reader()
    with reader.session() as connection:
        orphan = dict(row._mapping) | {"reference": reference}
        with pytest.raises(DifferenceFound, match="is missing"):
            explain(connection, reader.folder, Fake(orphan))


def test_a_split_against_the_policy_is_a_difference(books):
    row = next(row for row in rows(books) if row.code == "fee")
    reader = books.reader()
    with books:
        point = books.connection.begin_nested()
        books.connection.execute(
            closing.update()
            .where(closing.c.content_hash == row.reference)
            .values(fee_uc=closing.c.fee_uc + 1, net_uc=closing.c.net_uc - 1)
        )
        with pytest.raises(DifferenceFound, match="split otherwise"):
            explain(books.connection, reader.folder, row)
        point.rollback()


class Fake:
    """A row with other values."""

    def __init__(self, values):
        self.__dict__.update(values)


def test_pruned_leaves_are_told_and_the_experts_stay(books, tmp_path):
    folder = LedgerFolder(tmp_path)
    folder.leaves.mkdir()
    mark_pruned(folder.leaves, 1, bytes(32))
    earn, fee = (
        next(row for row in rows(books) if row.code == code) for code in ("earn", "fee")
    )
    with books:
        point = books.connection.begin_nested()
        amount_uc = books.world.amount_uc
        books.experts(1, (1, 3, 2, 4, 60), (0, 0, 3, 9, amount_uc - 60))
        of_fee = explain(books.connection, folder, fee)
        of_earn = explain(books.connection, folder, earn)
        point.rollback()
    assert "pruned" in facts(of_fee, "leaves")[0]["pruned"]
    assert of_fee.leaves == of_earn.leaves == of_earn.experts == []
    assert [
        (line.layer, line.expert, line.unit_price_uc) for line in of_fee.experts
    ] == [
        (0, 0, 10),
        (1, 3, 15),
    ]
    assert sum(line.amount_uc for line in of_fee.experts) == amount_uc
