"""B33: a statement with everything in it still says of each receipt one thing.

A month in which prices changed, with receipts that are open, in their window, held by a
holdback, by a dispute, by a missing signature, reversed, paid, refused, and with pay
for replicas that were only held.
"""

from collections import Counter
from dataclasses import replace

import pytest

from ledger.claims import FiledStatus
from ledger.periods import Period, parse_period
from ledger.policy import Policy
from ledger.receipt_document import receipt_document
from ledger.receipt_states import ReceiptState
from ledger.statement_document import statement_document
from ledger.statements import receipts, statement
from ledger.voucher import SignedVoucher, voucher_hash
from mobile_worker.servings.own_copy import OwnReceipt
from p2pmoe.receipts.comparison import check_own, compare, parse_rows
from tests.support.dispute_papers import claim_of, signed_claim
from tests.support.ledger_world import DAY_US, HOUR_US, Party, TabSide, World
from tests.support.standby_world import EPOCH_US, book, fill_pot, paper_of

ADA = Party("ada")
MONTH = parse_period("2026-11")
TERMS = Policy(
    fee_ppm=25_000,
    holdback_ppm=100_000,
    holdback_us=20 * DAY_US,
    dispute_us=24 * HOUR_US,
    answer_us=12 * HOUR_US,
    standby_uc=10_000,
)


class Month:
    """A worker's November, and the worker's own copy of its receipts."""

    def __init__(self, world: World, store) -> None:
        self.world, self.store = world, store
        self.own: list[OwnReceipt] = []
        self.n_tabs = 0

    def tab(self) -> TabSide:
        issued = self.store.grant(
            self.world.order(worker=ADA, ceiling_uc=50_000)
        ).result(60)
        self.n_tabs += 1
        return self.world.tab(issued, worker=ADA, tab=b"tab-%04d" % self.n_tabs)

    def file(self, tab: TabSide, *servings: int, final: bool = False) -> FiledStatus:
        return self.send(*tab.next(*servings, final=final))

    def send(self, signed: SignedVoucher, block: bytes) -> FiledStatus:
        answer = self.store.file(signed, block, ADA.id).result(60)
        self.own.append(
            OwnReceipt(
                signed=signed,
                status=answer.status,
                reason=answer.reason,
                answered_us=self.world.now_us,
            )
        )
        return answer.status

    def dispute(self, tab: TabSide, serving: int) -> None:
        claim, signature = signed_claim(claim_of(tab, serving), tab.backbone)
        self.store.operate(
            "dispute.open", {"claim": claim.hex(), "signature": signature.hex()}
        ).result(60)

    def tend_after(self, span_us: int) -> None:
        self.world.now_us += span_us
        self.store.tend()

    def early(self) -> None:
        """At the prices of epoch 7: one held by its holdback, one lost."""
        self.file(self.tab(), 0, 1, 2, final=True)
        lost = self.tab()
        self.file(lost, 0, 1, final=True)
        self.tend_after(HOUR_US)
        self.dispute(lost, 1)
        self.tend_after(3 * DAY_US)  # nobody answered: it is lost

    def change_prices(self) -> None:
        self.world.prices = replace(self.world.prices, epoch=8, base_uc=25)

    def late(self) -> None:
        """At those of epoch 8: open, in its window, disputed, unsigned, refused."""
        self.open = self.tab()
        self.file(self.open, 0, 1)
        self.file(self.open, 2)
        self.file(self.tab(), 3, 4, final=True)
        disputed = self.tab()
        self.file(disputed, 5, 6, final=True)
        self.dispute(disputed, 5)
        half = self.tab()
        final, block = half.one_sided(7)
        self.store.file(final, block, half.backbone.id).result(60)
        greedy = self.tab()
        signed, block = greedy.next(0, 1)
        voucher = replace(signed.verified(), amount_uc=10**15)  # what it says of itself
        assert self.send(greedy.sign(voucher), block) == FiledStatus.REJECTED

    def hold(self) -> None:
        """Replicas are held for an epoch, and paid for."""
        fill_pot(self.store, 10_000)
        self.world.now_us += EPOCH_US
        book(self.store, self.world, paper_of(self.world, ADA, pot_uc=10_000))


@pytest.fixture(scope="module")
def month(tmp_path_factory):
    world = World()
    with world.open(tmp_path_factory.mktemp("b33"), terms=TERMS) as store:
        made = Month(world, store)
        made.early()
        made.change_prices()
        made.hold()
        made.late()
        yield made


@pytest.fixture
def connection(month):
    with month.store.reader().session() as connection:
        yield connection


def test_every_receipt_is_in_one_state_and_the_sums_are_those_of_all(connection):
    lines = receipts(connection, worker=ADA.id, period=MONTH)
    assert len({line.voucher_hash for line in lines}) == len(lines) == 8
    made = statement(connection, ADA.id, MONTH)
    counted = Counter((line.state, line.why) for line in lines)
    assert counted == {(each.state, each.why): each.receipts for each in made.states}
    assert set(counted) == {
        (ReceiptState.PENDING, "open"),
        (ReceiptState.PENDING, "window"),
        (ReceiptState.HELD, "holdback"),
        (ReceiptState.HELD, "dispute"),
        (ReceiptState.HELD, "one-sided"),
        (ReceiptState.REJECTED, "reversed"),
        (ReceiptState.REJECTED, "ceiling"),
    }
    document = statement_document(made)
    by_state = document["receipts"]["by_state"].values()
    assert sum(each["receipts"] for each in by_state) == len(lines)
    total_uc = sum(line.amount_uc for line in lines)
    assert sum(each["amount_uc"] for each in by_state) == total_uc
    assert document["receipts"]["amount_uc"] == total_uc


def test_what_was_earned_is_said_for_each_epoch_of_prices(connection, month):
    made = statement(connection, ADA.id, MONTH)
    assert [(line.epoch, line.row_uc) for line in made.by_epoch] == [(7, 10), (8, 25)]
    assert sum(line.earned_uc for line in made.by_epoch) == made.earned_uc
    assert sum(line.receipts for line in made.by_epoch) == sum(
        line.vouchers for line in made.by_backbone
    )
    at_base = sum(line.rows * line.row_uc for line in made.by_epoch)
    assert (at_base, made.earned_uc - at_base) == (made.base_uc, made.scarcity_uc)
    prices = statement_document(made)["by_epoch"][1]["prices"]
    assert prices == month.world.prices.content_hash.hex()


def test_the_summary_leads_from_opening_to_closing(connection):
    for period in (MONTH, Period(0, MONTH.start_us + 2 * DAY_US)):
        document = statement_document(statement(connection, ADA.id, period))
        ins = ("opening", "earned", "standby")
        outs = ("fees", "reversed", "penalties", "rounding", "paid")
        closing_uc = sum(document[f"{name}_uc"] for name in ins)
        closing_uc -= sum(document[f"{name}_uc"] for name in outs)
        assert document["closing_uc"] == closing_uc
    assert statement(connection, ADA.id, MONTH).standby_uc > 0


def test_pay_follows_what_was_counted_and_not_what_a_worker_says(connection):
    made = statement(connection, ADA.id, MONTH)
    refused = [each for each in made.states if each.why == "ceiling"]
    assert [each.amount_uc for each in refused] == [10**15]
    assert made.earned_uc < 10_000
    assert [each["claimed_uc"] for each in statement_document(made)["rejected"]] == [
        each.amount_uc for each in made.states if each.state == ReceiptState.REJECTED
    ]


def test_the_workers_own_log_agrees_and_a_change_is_named(connection, month):
    lines = receipts(connection, worker=ADA.id, period=MONTH)
    rows = [receipt_document(line, explained=False) for line in lines]
    checked, wrong = check_own(month.own, ADA.id)
    assert wrong == []
    books = [row for row in rows if row["reason"] != "one-sided"]
    (known,) = compare(checked, parse_rows({"vouchers": books})).differences
    assert known.what.endswith("rejected in the ledger: reversed")
    lost = [row for row in books if row["epoch"] != 8 or row["reason"] != "window"]
    found = compare(checked, parse_rows({"vouchers": lost})).differences
    names = {voucher_hash(each.signed.raw) for each in month.own}
    assert len(found) == 2
    assert {known.voucher} < {each.voucher for each in found} <= names
