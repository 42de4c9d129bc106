"""Tabs by backbone: opening, going on, closing; grants that outlive them."""

import pytest

from ledger.errors import GrantRefused, SignatureRefused
from ledger.voucher import sign_voucher
from mobile_worker.messages.accounts import Countersign, Grant
from mobile_worker.messages.serving import Accept
from mobile_worker.servings.accounts import Accounts
from mobile_worker.servings.grants import GrantReader
from mobile_worker.servings.tab import CallHashes, Refusal, Reservation, Tab
from tests.support.money import MANIFEST, NOW_US, Money, dispatch_of

HASHES = CallHashes(x=b"x" * 16, out=b"o" * 16)


@pytest.fixture
def money() -> Money:
    return Money()


@pytest.fixture
def accounts(money: Money) -> Accounts:
    accounts = Accounts(
        GrantReader(
            network=money.network,
            worker=money.worker.peer_id,
            ledger=money.ledger.peer_id,
            market=money.market.peer_id,
        ),
        money.worker.sign,
    )
    accounts.expect(money.backbone.peer_id, MANIFEST)
    return accounts


def grant_message(money: Money, **changes: object) -> Grant:
    raw, signature = money.signed_grant(money.grant(money.prices(), **changes))
    return Grant(request=1, grant=raw, signature=signature, error="")


def greet(accounts: Accounts, money: Money, tab: bytes = b"") -> Tab:
    return accounts.greeted(money.backbone.peer_id, MANIFEST, 1, tab)


def serve(tab: Tab, first: int) -> None:
    taken = tab.admit(dispatch_of(first, tab=tab.terms.tab), NOW_US)
    assert isinstance(taken, Reservation), taken
    tab.computed(taken, [HASHES], 0.0)


def sign_all(accounts: Accounts, money: Money, now: float) -> int:
    n = 0
    for peer, proposal in accounts.due(now, NOW_US):
        answer = Countersign(
            voucher_hash=proposal.name,
            backbone_signature=sign_voucher(proposal.raw, money.backbone.sign),
            error="",
        )
        n += accounts.countersigned(peer, answer, now) is not None
    return n


def test_a_backbone_goes_on_with_its_tab_and_a_forgetful_one_gets_another(
    accounts: Accounts, money: Money
) -> None:
    accounts.priced(*money.signed_prices(money.prices()))
    accounts.granted(money.backbone.peer_id, grant_message(money))
    first = greet(accounts, money)
    assert len(first.terms.tab) == 8
    assert greet(accounts, money) is first
    serve(first, 0)
    assert greet(accounts, money, first.terms.tab) is first
    second = greet(accounts, money)
    assert second is not first
    assert first.is_closed
    assert second.terms.tab != first.terms.tab
    serve(second, 0)
    peer = money.backbone.peer_id
    assert accounts.find(peer, first.terms.tab) is first
    assert accounts.find(peer, second.terms.tab) is second
    assert accounts.find(money.worker.peer_id, second.terms.tab) is None
    assert accounts.find(peer, b"?" * 8) is None


def test_an_old_tab_is_closed_with_a_final_voucher_and_dropped(
    accounts: Accounts, money: Money
) -> None:
    accounts.priced(*money.signed_prices(money.prices()))
    accounts.granted(money.backbone.peer_id, grant_message(money))
    peer = money.backbone.peer_id
    first = greet(accounts, money)
    serve(first, 0)
    serve(first, 1)
    accounts.accepted(peer, Accept(tab=first.terms.tab, ranges=((0, 0),)), 0.0)
    greet(accounts, money)
    assert sign_all(accounts, money, 1.0) == 1
    assert sign_all(accounts, money, 10.9) == 0
    assert sign_all(accounts, money, 12.0) == 0
    assert sign_all(accounts, money, 12.1) == 1
    accounts.due(12.2, NOW_US)
    assert accounts.find(peer, first.terms.tab) is None
    assert accounts.is_settled
    assert (accounts.totals.accepted, accounts.totals.signed) == (1, 1)
    assert accounts.totals.signed_uc == 10


def test_a_closed_tab_that_nobody_signs_is_given_up(
    accounts: Accounts, money: Money
) -> None:
    accounts.priced(*money.signed_prices(money.prices()))
    accounts.granted(money.backbone.peer_id, grant_message(money))
    first = greet(accounts, money)
    serve(first, 0)
    accounts.accepted(
        money.backbone.peer_id, Accept(tab=first.terms.tab, ranges=((0, 0),)), 0.0
    )
    accounts.close()
    accounts.due(0.0, NOW_US)
    assert not accounts.is_settled
    accounts.due(30.0, NOW_US)
    assert accounts.is_settled


def test_grants_wait_for_prices_and_outlive_a_tab(
    accounts: Accounts, money: Money
) -> None:
    peer = money.backbone.peer_id
    accounts.granted(peer, grant_message(money, ceiling_uc=25))
    tab = greet(accounts, money)
    assert tab.admit(dispatch_of(0), NOW_US) is Refusal.NO_GRANT
    accounts.priced(*money.signed_prices(money.prices()))
    serve(tab, 0)
    other = greet(accounts, money)
    accounts.granted(peer, grant_message(money, ceiling_uc=25))
    serve(other, 0)
    assert other.admit(dispatch_of(1), NOW_US) is Refusal.CEILING


def test_b39_a_grant_is_refused_unless_it_is_for_the_two_of_us(
    accounts: Accounts, money: Money
) -> None:
    peer = money.backbone.peer_id
    accounts.priced(*money.signed_prices(money.prices()))
    with pytest.raises(GrantRefused):
        accounts.granted(peer, grant_message(money, worker=b"w" * 32))
    with pytest.raises(GrantRefused):
        accounts.granted(money.ledger.peer_id, grant_message(money))
    with pytest.raises(SignatureRefused):
        accounts.granted(
            peer,
            Grant(
                request=1,
                grant=grant_message(money).grant,
                signature=bytes(64),
                error="",
            ),
        )
    accounts.granted(
        peer, Grant(request=1, grant=b"", signature=b"", error="no credit")
    )
    tab = greet(accounts, money)
    assert tab.admit(dispatch_of(0), NOW_US) is Refusal.NO_GRANT


def test_a_refusal_to_sign_reaches_the_tab(accounts: Accounts, money: Money) -> None:
    peer = money.backbone.peer_id
    accounts.priced(*money.signed_prices(money.prices()))
    accounts.granted(peer, grant_message(money))
    tab = greet(accounts, money)
    serve(tab, 0)
    accounts.accepted(peer, Accept(tab=tab.terms.tab, ranges=((0, 0),)), 0.0)
    accounts.due(5.0, NOW_US)
    no = Countersign(voucher_hash=bytes(32), backbone_signature=b"", error="withheld")
    for now in (5.0, 6.0, 7.0):
        assert accounts.countersigned(peer, no, now) is None
    assert tab.is_closed


def test_the_tabs_in_use_are_the_open_ones(accounts: Accounts, money: Money) -> None:
    assert accounts.in_use() == []
    tab = greet(accounts, money)
    assert accounts.in_use() == [(money.backbone.peer_id, tab)]
    tab.close()
    assert accounts.in_use() == []
