"""Statements of a ledger as it runs: adjacent periods add up, and so do all workers."""

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.accounts import AccountKind, TransferCode
from ledger.balances import balances
from ledger.database import Reader
from ledger.flows import WORKER_KINDS, worker_flows
from ledger.income import IncomeBy, earnings, income
from ledger.journal import account_name, journal_lines
from ledger.periods import ALL_TIME, Period, parse_period
from ledger.receipt_states import receipts
from ledger.schema_closing import period as period_table
from ledger.statement_root import statement_root
from ledger.statements import Statement, statement
from tests.support.accountants import beancounts, hledgers
from tests.support.busy_months import END_US, BusyMonths
from tests.support.ledger_world import DAY_US, NOVEMBER_US

pytestmark = pytest.mark.slow

BORDERS = st.lists(
    st.one_of(
        st.integers(NOVEMBER_US - DAY_US, END_US + DAY_US),
        # To the microsecond where something happens.
        st.builds(
            lambda day, more: NOVEMBER_US + day * DAY_US + more,
            st.integers(0, 92),
            st.integers(-2, 4),
        ),
    ),
    min_size=3,
    max_size=3,
    unique=True,
).map(sorted)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return BusyMonths(tmp_path_factory.mktemp("busy") / "ledger")


@pytest.fixture(scope="module")
def connection(world):
    with Reader(world.path).session() as connection:
        yield connection


def additive(found: Statement) -> Counter[object]:
    """Return everything of a statement that must add up over periods."""
    sums: Counter[object] = Counter()
    for code in TransferCode:
        sums[code] = found.moved_uc(code)
    for line in found.by_backbone:
        for name in ("vouchers", "servings", "rows", "earned_uc", "base_uc"):
            sums[line.backbone, name] = getattr(line, name)
    for state in found.states:
        for name in ("receipts", "servings", "amount_uc"):
            sums[state.state, state.why, name] = getattr(state, name)
    for payout in found.payouts:
        sums[payout.id, payout.state] = payout.amount_uc
    sums["scarcity"] = found.scarcity_uc
    return sums


def summed(parts: Iterable[Counter[object]]) -> dict[object, int]:
    """Add counters up; a Counter's own sum would drop what is below zero."""
    total: dict[object, int] = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total.get(key, 0) + value
    return {key: value for key, value in total.items() if value}


@settings(max_examples=30)
@given(borders=BORDERS)
def test_b38_statements_of_adjacent_periods_add_up_to_both(world, connection, borders):
    first, middle, last = borders
    for worker in world.workers:
        one, two, both = (
            statement(connection, worker.id, Period(*span))
            for span in ((first, middle), (middle, last), (first, last))
        )
        assert one.flows.opening == both.flows.opening
        assert one.flows.closing == two.flows.opening
        assert two.flows.closing == both.flows.closing
        added = summed([additive(one), additive(two)])
        assert added == summed([additive(both)])
        check_it_closes(both)


def check_it_closes(found: Statement) -> None:
    lost = sum(
        found.moved_uc(code)
        for code in (
            TransferCode.FEE,
            TransferCode.REVERSE,
            TransferCode.FORFEIT,
            TransferCode.ROUND,
            TransferCode.PAID,
        )
    )
    assert found.opening_uc + found.earned_uc - lost == found.closing_uc


@settings(max_examples=30)
@given(at_us=BORDERS.map(lambda borders: borders[0]))
def test_all_workers_statements_sum_to_the_trial_balance(connection, at_us):
    held: Counter[str] = Counter()
    for line in balances(connection, as_of_us=at_us):
        held[line.kind] += line.balance_uc
    assert sum(held.values()) == 0
    flows = worker_flows(connection, Period(0, at_us)).values()
    for kind, name in zip(
        WORKER_KINDS, ("pending", "held", "available", "clearing"), strict=True
    ):
        owed = sum(getattr(each.closing, f"{name}_uc") for each in flows)
        assert owed == held[kind.value]
    fees = sum(each.moved[TransferCode.FEE] for each in flows)
    assert fees == held[AccountKind.FEE.value]


@settings(max_examples=20)
@given(borders=BORDERS)
def test_b33_every_receipt_of_a_period_is_in_one_state(world, connection, borders):
    period = Period(borders[0], borders[2])
    for worker in world.workers:
        found = statement(connection, worker.id, period)
        lines = receipts(connection, worker=worker.id, period=period)
        assert len({line.voucher_hash for line in lines}) == len(lines)
        assert sum(state.receipts for state in found.states) == len(lines)
        by_state = Counter((line.state, line.why) for line in lines)
        assert by_state == {
            (state.state, state.why): state.receipts for state in found.states
        }
        total = sum(line.amount_uc for line in lines)
        assert sum(state.amount_uc for state in found.states) == total


def test_b33_a_price_change_within_the_period_is_priced_by_each_table(
    world, connection
):
    november = parse_period("2026-11")
    for worker in world.workers:
        found = statement(connection, worker.id, november)
        lines = earnings(connection, november, worker.id)
        assert len({line.price_table_hash for line in lines}) == 2
        assert found.base_uc + found.scarcity_uc == found.earned_uc
        assert found.scarcity_uc != 0
        assert found.earned_uc == sum(line.amount_uc for line in lines)


def test_income_by_expert_is_what_was_closed(world, connection):
    """Both are of the same servings, but for those of tabs that are still open."""
    for worker in (None, *(each.id for each in world.workers)):
        totals = {
            by: sum(line.amount_uc for line in income(connection, by, ALL_TIME, worker))
            for by in IncomeBy
        }
        lines = receipts(connection, worker=worker)
        open_uc = sum(line.amount_uc for line in lines if line.why == "open")
        assert totals[IncomeBy.EXPERT] == totals[IncomeBy.LAYER]
        assert totals[IncomeBy.EXPERT] + open_uc == totals[IncomeBy.WORKER]
        assert totals[IncomeBy.WORKER] == totals[IncomeBy.DAY]
        assert totals[IncomeBy.WORKER] == totals[IncomeBy.BACKBONE]


def test_the_months_have_something_of_everything(world, connection):
    found = {
        (state.state.value, state.why)
        for worker in world.workers
        for state in statement(connection, worker.id, ALL_TIME).states
    }
    assert found >= {
        ("paid", ""),
        ("pending", "open"),
        ("pending", "available"),
        ("held", "holdback"),
        ("held", "dispute"),
        ("rejected", "reversed"),
        ("rejected", "signature"),
    }


def test_b38_closed_months_keep_their_statements(connection):
    rows = connection.execute(period_table.select()).all()
    assert [row.name for row in rows] == ["2026-11", "2026-12"]
    for row in rows:
        period = Period(row.start_us, row.end_us)
        assert statement_root(connection, period) == row.statement_root


@pytest.mark.parametrize("read", [hledgers, beancounts])
def test_accountants_programs_come_to_the_same_balances(connection, read, tmp_path):
    for name in ("2026-11", "2026-12", "2026..2028"):
        period = parse_period(name)
        found = read("".join(journal_lines(connection, period)), tmp_path)
        assert found == {
            account_name(line.owner, line.kind): -line.balance_uc
            for line in balances(connection, as_of_us=period.end_us)
            if line.balance_uc
        }
