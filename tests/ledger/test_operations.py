"""Operations by name, on the writer's thread, between what its group collected."""

import pytest
from sqlalchemy import func, select

from ledger import operations
from ledger.accounts import AccountKind
from ledger.errors import InsufficientFunds, OperationRefused
from ledger.schema import filing, transfer
from ledger.settlement import fund
from tests.support.ledger_world import World


def test_an_operation_is_asked_for_by_name(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        answer = store.operate("ping", {}).result(60)
        assert answer == {"ledger": world.ledger.id.hex(), "now_us": world.now_us}
        for name, params in (("pong", {}), ("ping", {"x": 1})):
            with pytest.raises(OperationRefused):
                store.operate(name, params).result(60)


def test_it_reads_what_its_group_did_and_what_it_does_is_kept(tmp_path, monkeypatch):
    """Grant, filing, operation and filing in one group: each sees the one before."""
    world = World()

    def count_and_fund(office, params):
        fund(office.desk, world.backbone.id, 5, "gift")
        rows = office.connection.execute(select(func.count()).select_from(filing))
        return {"filings": rows.scalar_one()}

    monkeypatch.setitem(operations.OPERATIONS, "count", count_and_fund)
    with world.open(tmp_path) as opened:
        tab = world.tab(opened.grant(world.order()).result(60))
    with world.open(tmp_path, window_s=0.05) as store:
        first, first_block = tab.next(0, 1)
        second, second_block = tab.next(2)
        futures = [
            store.file(first, first_block, tab.backbone.id),
            store.operate("count", {}),
            store.file(first, first_block, tab.backbone.id),
            store.file(second, second_block, tab.backbone.id),
            store.operate("count", {}),
        ]
        answers = [future.result(60) for future in futures]
        assert answers[1] == {"filings": 1}
        assert answers[2].status.name == "DUPLICATE"
        assert answers[4] == {"filings": 2}
        with store.reader().session() as connection:
            gifts = select(func.count()).where(transfer.c.reference == b"gift")
            assert connection.execute(gifts).scalar_one() == 1


def test_one_that_refuses_fails_alone(tmp_path, monkeypatch):
    def refuse(office, params):
        deposit = office.desk.book.find(world.backbone.id, AccountKind.CLIENT_DEPOSIT)
        raise InsufficientFunds(f"deposit is {deposit}")

    world = World()
    monkeypatch.setitem(operations.OPERATIONS, "refuse", refuse)
    with world.open(tmp_path, window_s=0.05) as store:
        refused = store.operate("refuse", {})
        granted = store.grant(world.order())
        with pytest.raises(InsufficientFunds, match="deposit is None"):
            refused.result(60)
        assert granted.result(60).raw
