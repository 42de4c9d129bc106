"""A key's close, its window, and what a dispute may still change."""

import pytest
from sqlalchemy import select

from ledger.accounts import AccountKind, TransferCode
from ledger.audit import verify_ledger
from ledger.claims import FiledStatus
from ledger.closing import dismiss, dispute, reverse
from ledger.errors import DifferenceFound, NotFound
from ledger.log.entry import entry_hash, pack_entry
from ledger.policy import Policy
from ledger.schema import transfer
from ledger.schema_closing import closing, voucher_expert
from ledger.statements import balances
from tests.support.ledger_world import HOUR_US, Party, on_desk

TERMS = Policy(fee_ppm=25_000, holdback_ppm=100_000, holdback_us=72 * HOUR_US)


@pytest.fixture
def store(world, tmp_path):
    with world.open(tmp_path, terms=TERMS) as store:
        yield store


def held(store) -> dict[AccountKind, int]:
    with store.reader().session() as connection:
        return {b.kind: b.balance_uc for b in balances(connection) if b.balance_uc}


def rows(store, table, *order):
    with store.reader().session() as connection:
        return connection.execute(select(table).order_by(*order)).all()


def close_one(world, store, *servings: int, worker: Party | None = None):
    issued = store.grant(world.order(worker=worker)).result(60)
    tab = world.tab(issued, worker=worker)
    assert tab.file(store, *servings, final=True).status is FiledStatus.STORED
    return tab


def test_a_final_voucher_closes_its_key(world, store):
    tab = close_one(world, store, *range(50))
    amount_uc = tab.previous.amount_uc
    (row,) = rows(store, closing)
    split = TERMS.split(amount_uc)
    assert (row.amount_uc, row.fee_uc, row.held_uc, row.net_uc) == (
        amount_uc,
        split.fee_uc,
        split.held_uc,
        split.net_uc,
    )
    assert (row.state, row.holdback, row.log_index) == ("closed", "held", 0)
    assert row.release_due_us == world.now_us + TERMS.dispute_us
    assert row.holdback_due_us == world.now_us + TERMS.holdback_us
    signed = tab.sign(tab.previous)
    assert row.entry_hash == entry_hash(pack_entry(signed, row.policy_hash))
    balance = held(store)
    assert balance[AccountKind.FEE] == split.fee_uc
    assert balance[AccountKind.WORKER_HELD] == split.held_uc
    assert balance[AccountKind.WORKER_PENDING] == split.net_uc
    assert AccountKind.WORKER_AVAILABLE not in balance


def test_its_leaves_are_summed_by_expert(world, store):
    tab = close_one(world, store, *range(50))
    sums = rows(store, voucher_expert, voucher_expert.c.layer, voucher_expert.c.expert)
    assert sum(row.servings for row in sums) == 50
    assert sum(row.rows for row in sums) == tab.previous.rows
    assert sum(row.amount_uc for row in sums) == tab.previous.amount_uc
    dear = next(row for row in sums if (row.layer, row.expert) == (1, 3))
    assert dear.amount_uc == dear.rows * 15  # 1.5 times the base price


def test_what_it_earned_is_available_after_the_window(world, ledger_database):
    with world.open(ledger_database, terms=TERMS) as store:
        release_when_due(world, store)


def release_when_due(world, store):
    close_one(world, store, 1, 2, 3)
    world.now_us += TERMS.dispute_us - 1
    assert store.tend().vouchers_released == 0
    world.now_us += 1
    assert store.tend().vouchers_released == 1
    (row,) = rows(store, closing)
    assert (row.state, row.released_us) == ("released", world.now_us)
    assert held(store)[AccountKind.WORKER_AVAILABLE] == row.net_uc
    assert AccountKind.WORKER_PENDING not in held(store)
    assert store.tend().vouchers_released == 0


def test_keys_are_closed_when_their_last_grant_is_released(world, store):
    first = store.grant(world.order()).result(60)
    tab = world.tab(first)
    tab.file(store, 1, 2)
    world.now_us += 12 * HOUR_US
    tab.grant = world.tab(store.grant(world.order()).result(60)).grant
    tab.file(store, 3)
    world.now_us += 61 * HOUR_US  # the first grant's time is over, the second's not
    assert store.tend().grants_released == 1
    assert rows(store, closing) == []
    world.now_us += 12 * HOUR_US
    assert store.tend().grants_released == 1
    (row,) = rows(store, closing)
    assert row.amount_uc == tab.previous.amount_uc
    late = tab.file(store, 4)
    assert (late.status, late.reason) == (FiledStatus.REJECTED, "closed")


def test_damaged_leaves_keep_their_own_key_open_and_no_other(world, tmp_path):
    """Fee and holdback once moved without a closing: the key could never close."""
    with world.open(tmp_path, terms=TERMS) as store:
        issued = store.grant(world.order()).result(60)
        for name in (b"tab-0001", b"tab-0002"):
            world.tab(issued, tab=name).file(store, *range(10))
    leaves = tmp_path / "leaves/00000001.leaves"
    whole = leaves.read_bytes()
    with world.open(tmp_path, terms=TERMS) as store:
        leaves.write_bytes(whole[:-100])  # while it runs: the second tab's
        world.now_us += 80 * HOUR_US
        with pytest.raises(DifferenceFound, match="needs 1580"):
            store.tend()
        (row,) = rows(store, closing)
        codes = [each.code for each in rows(store, transfer, transfer.c.seq)]
        assert codes.count("fee") == codes.count("hold") == 1
        assert held(store)[AccountKind.FEE] == row.fee_uc
    leaves.write_bytes(whole)
    with world.open(tmp_path, terms=TERMS) as store:
        assert store.tend().keys_closed == 1
        verify_ledger(store.reader(), world.identity)


def test_the_log_counts_closings_in_order(world, tmp_path):
    with world.open(tmp_path) as store:
        for n in range(3):
            close_one(world, store, n, worker=Party(f"worker {n}"))
    with world.open(tmp_path) as store:
        close_one(world, store, 9, worker=Party("another"))
        found = [row.log_index for row in rows(store, closing, closing.c.voucher_id)]
    assert found == [0, 1, 2, 3]


def test_a_closing_of_nothing_moves_nothing(world, store):
    tab = world.tab(store.grant(world.order()).result(60))
    assert tab.file(store, final=True).status is FiledStatus.STORED
    world.now_us += TERMS.holdback_us
    assert store.tend().vouchers_released == 1
    (row,) = rows(store, closing)
    assert (row.state, row.holdback, row.amount_uc) == ("released", "none", 0)
    codes = {found.code for found in rows(store, transfer)}
    assert codes == {TransferCode.FUND, TransferCode.RESERVE}


def test_what_an_earlier_program_left_open_is_closed_later(
    world, ledger_database, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr("ledger.filings.close", lambda desk, stored: None)
        patch.setattr("ledger.settlement.close_unfinished", lambda *_: 0)
        with world.open(ledger_database) as store:
            close_one(world, store, 1)
            ended = world.tab(
                store.grant(world.order(worker=Party("w2"))).result(60),
                worker=Party("w2"),
            )
            ended.file(store, 1)
            world.now_us += 100 * HOUR_US
            store.tend()
            going_on = world.tab(
                store.grant(world.order(worker=Party("w3"))).result(60),
                worker=Party("w3"),
            )
            going_on.file(store, 1)
            assert rows(store, closing) == []
    with world.open(ledger_database) as store:
        assert store.tend().keys_closed == 2
        assert store.tend().keys_closed == 0
        assert len(rows(store, closing)) == 2


@pytest.mark.parametrize("is_upheld", [False, True])
def test_a_dispute_keeps_it_until_it_is_decided(world, store, is_upheld):
    tab = close_one(world, store, 1, 2, 3)
    reserved_uc = held(store)[AccountKind.CLIENT_DEPOSIT]

    def state(desk):
        return desk.closings.find(1)

    on_desk(store, lambda desk: dispute(desk, state(desk)))
    world.now_us += TERMS.holdback_us
    assert store.tend().vouchers_released == 0
    assert store.tend().holdbacks_released == 0
    if is_upheld:
        on_desk(store, lambda desk: reverse(desk, state(desk)))
        (row,) = rows(store, closing)
        assert (row.state, row.released_us) == ("reversed", world.now_us)
        assert held(store)[AccountKind.CLIENT_DEPOSIT] == reserved_uc + row.net_uc
        return
    on_desk(store, lambda desk: dismiss(desk, state(desk)))
    assert store.tend().vouchers_released == 1
    available_uc = held(store)[AccountKind.WORKER_AVAILABLE]
    assert available_uc == tab.previous.amount_uc - held(store)[AccountKind.FEE]


def test_each_step_is_possible_in_its_state_only(world, store):
    close_one(world, store, 1)
    for step in (dismiss, reverse):
        with pytest.raises(NotFound, match="is closed, not disputed"):
            on_desk(store, lambda desk, step=step: step(desk, desk.closings.find(1)))
    world.now_us += TERMS.dispute_us
    with pytest.raises(NotFound, match="window ended"):
        on_desk(store, lambda desk: dispute(desk, desk.closings.find(1)))
    store.tend()
    with pytest.raises(NotFound, match="is released, not closed"):
        on_desk(store, lambda desk: dispute(desk, desk.closings.find(1)))


def test_a_group_sees_what_it_decided_itself(world, store):
    close_one(world, store, 1)
    world.now_us += TERMS.dispute_us - 1

    def dispute_then_release(desk):
        dispute(desk, desk.closings.find(1))
        desk.now_us += 1
        return [state.state for state in desk.closings.release_due(desk.now_us, 9)]

    assert on_desk(store, dispute_then_release) == []


def test_the_database_refuses_the_outcome_that_excludes_the_other(world, store):
    """Even a desk that forgot the state cannot move the same value twice."""
    close_one(world, store, 1)
    world.now_us += TERMS.dispute_us
    store.tend()

    def reverse_again(desk):
        state = desk.closings.find(1)
        state.state = type(state.state).DISPUTED
        reverse(desk, state)

    with pytest.raises(Exception, match="another body"):
        on_desk(store, reverse_again)
