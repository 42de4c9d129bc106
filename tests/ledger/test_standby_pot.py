"""Filling the pot of standby pay: from outside or from fees, once for each note."""

import pytest

from ledger.accounts import AccountKind
from ledger.audit import verify_ledger
from ledger.errors import InsufficientFunds, OperationRefused, TransferConflict
from ledger.policy import Policy
from tests.support.ledger_world import held
from tests.support.standby_world import fill_pot


@pytest.fixture
def store(world, tmp_path):
    with world.open(tmp_path, terms=Policy(fee_ppm=500_000)) as store:
        tab = world.tab(store.grant(world.order()).result(60))
        tab.file(store, 0, 1, final=True)
        yield store
        verify_ledger(store.reader(), world.identity)


def test_from_outside_and_from_fees(store):
    fees_uc = held(store, AccountKind.FEE)
    assert fees_uc > 2
    assert fill_pot(store, 100)["pot_uc"] == 100
    answer = fill_pot(store, fees_uc - 1, source="fees")  # the same note, other source
    assert (answer["new"], answer["pot_uc"]) == (True, 100 + fees_uc - 1)
    assert held(store, AccountKind.FEE) == 1


def test_a_note_is_booked_once(store):
    fill_pot(store, 100)
    again = fill_pot(store, 100)
    assert (again["new"], again["pot_uc"]) == (False, 100)
    with pytest.raises(TransferConflict):
        fill_pot(store, 101)


def test_without_commit_it_is_only_said(store):
    params = {"amount_uc": 7, "source": "outside", "note": "n"}
    answer = store.operate("standby.fund", params).result(60)
    assert (answer["committed"], answer["pot_uc"]) == (False, 0)
    assert held(store, AccountKind.STANDBY) == 0


@pytest.mark.parametrize("commit", [True, False])
def test_more_fees_than_there_are_is_refused(store, commit):
    params = {"amount_uc": 10**9, "source": "fees", "note": "n", "commit": commit}
    with pytest.raises(InsufficientFunds):
        store.operate("standby.fund", params).result(60)
    assert held(store, AccountKind.STANDBY) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": "the moon"},
        {"note": ""},
        {"amount_uc": 0},
        {"amount_uc": 1 << 53},
        {"worker": "me"},
    ],
)
def test_other_parameters_are_refused(store, wrong):
    params = {"amount_uc": 7, "source": "outside", "note": "n", "commit": True}
    with pytest.raises(OperationRefused):
        store.operate("standby.fund", params | wrong).result(60)
