"""The rules of credit and grants, through the store."""

import dataclasses

import pytest

from ledger.accounts import AccountKind
from ledger.audit import verify_ledger
from ledger.claims import FiledStatus
from ledger.errors import (
    GrantRefused,
    InsufficientFunds,
    KeyRefused,
    LedgerError,
    SignatureRefused,
    TransferConflict,
)
from ledger.grant import Grant, verify_grant
from ledger.settlement import GrantPolicy, float_leaves, fund_key
from tests.support.ledger_world import HOUR_US, Party, held


def grant(world, store, **order):
    return store.grant(world.order(**order)).result(60)


def check(world, store) -> None:
    verify_ledger(store.reader(), world.identity)


def test_a_grant_reserves_before_it_is_signed(world, store):
    issued = grant(world, store, ceiling_uc=400)
    granted = verify_grant(issued.raw, issued.signature, world.ledger.id)
    assert (granted.worker, granted.backbone) == (world.worker.id, world.backbone.id)
    assert granted.ceiling_uc == 400
    assert granted.float_leaves == 64
    assert granted.expiry_us == world.now_us + 24 * HOUR_US
    assert held(store, AccountKind.CLIENT_RESERVED) == 400
    assert held(store, AccountKind.CLIENT_DEPOSIT) == 1_000_000_000 - 400
    check(world, store)


def test_a_lost_answer_may_be_asked_for_again(world, store):
    order = world.order(ceiling_uc=400)
    issued = store.grant(order).result(60)
    assert store.grant(order).result(60) == issued
    both = [store.grant(order), store.grant(order)]
    assert {f.result(60) for f in both} == {issued}
    assert held(store, AccountKind.CLIENT_RESERVED) == 400
    # Once something is used of it, or half its time is over, it is another one.
    world.tab(issued).file(store, 0)
    second = store.grant(order).result(60)
    assert second != issued
    world.now_us += 13 * HOUR_US
    assert grant(world, store, ceiling_uc=400, request=order.request) != second
    check(world, store)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"ceiling_uc": 0}, GrantRefused),
        ({"ceiling_uc": 2**53}, LedgerError),
        ({"ceiling_uc": 10**9 + 1}, InsufficientFunds),
        ({"worker": Party("backbone").id}, GrantRefused),
        ({"worker": b"\x01" + bytes(31)}, KeyRefused),
        ({"backbone": bytes(32)}, KeyRefused),
        ({"price_signature": bytes(64)}, SignatureRefused),
    ],
)
def test_orders_that_are_refused(world, store, changes, error):
    with pytest.raises(error):
        store.grant(dataclasses.replace(world.order(), **changes)).result(60)
    check(world, store)


def test_prices_of_another_network_are_refused(world, store):
    foreign = dataclasses.replace(world.prices, network=Party("elsewhere").id)
    with pytest.raises(GrantRefused, match="another network"):
        grant(world, store, prices=foreign)


def test_credit_is_given_once_for_a_note(world, store):
    assert store.fund(world.backbone.id, 5, "invoice 1").result(60)
    assert not store.fund(world.backbone.id, 5, "invoice 1").result(60)
    with pytest.raises(TransferConflict):
        store.fund(world.backbone.id, 6, "invoice 1").result(60)
    assert held(store, AccountKind.CLIENT_DEPOSIT) == 5
    grant(world, store, ceiling_uc=5)  # has an account: no opening credit
    assert held(store, AccountKind.CLIENT_RESERVED) == 5
    check(world, store)


def test_a_backbone_that_came_before_there_was_credit_gets_it_later(world, tmp_path):
    path = tmp_path / "later"
    store = world.open(path, credit_uc=0)
    with pytest.raises(InsufficientFunds):
        grant(world, store, ceiling_uc=5)
    store.close()
    store = world.open(path, credit_uc=9)
    grant(world, store, ceiling_uc=5)
    grant(world, store, ceiling_uc=4, request=2)
    with pytest.raises(InsufficientFunds):
        grant(world, store, ceiling_uc=1, request=3)
    store.close()


def test_what_is_left_of_an_expired_grant_goes_back_after_grace(world, store):
    tab = world.tab(grant(world, store, ceiling_uc=1000))
    tab.file(store, 0)
    earned = tab.previous.amount_uc
    world.now_us += (24 + 47) * HOUR_US
    assert store.release_expired().result(60) == 0
    assert tab.file(store, 1).status is FiledStatus.STORED  # late, but in time
    world.now_us += 2 * HOUR_US
    assert store.release_expired().result(60) == 1
    assert store.release_expired().result(60) == 0
    assert held(store, AccountKind.CLIENT_RESERVED) == 0
    assert held(store, AccountKind.WORKER_PENDING) == tab.previous.amount_uc > earned
    too_late = tab.file(store, 2)
    assert (too_late.status, too_late.reason) == (FiledStatus.REJECTED, "closed")
    check(world, store)


def test_the_float_grows_with_what_was_countersigned(world, store):
    policy = GrantPolicy()
    assert [float_leaves(policy, n) for n in (0, 255, 260, 10**6)] == [64, 64, 65, 4096]
    tab = world.tab(grant(world, store))
    tab.file(store, *range(400))
    issued = grant(world, store)
    assert Grant.parse(issued.raw).float_leaves == 100


def test_business_keys_are_unambiguous():
    assert fund_key(b"o" * 32, "n") == b"o" * 32 + b"n"


def test_new_keys_get_no_more_opening_credit_than_a_day_has(world, tmp_path):
    with world.open(tmp_path / "open", credit_uc=5, openings_of_day=2) as store:
        grant(world, store, ceiling_uc=5)
        grant(world, store, ceiling_uc=5, backbone=Party("second"))
        with pytest.raises(GrantRefused, match="tomorrow"):
            grant(world, store, ceiling_uc=5, backbone=Party("third"))
        store.fund(Party("paid").id, 5, "an invoice").result(60)
        grant(world, store, ceiling_uc=5, backbone=Party("paid"))
        world.now_us += 24 * HOUR_US
        grant(world, store, ceiling_uc=5, backbone=Party("third"))
        check(world, store)
