"""The interface of a way of paying: both real ones have it."""

from p2pmoe.payouts.adapter import Adapter, Outcome, OutcomeKind
from p2pmoe.payouts.bank import BankFiles
from p2pmoe.payouts.http import HttpCallback
from p2pmoe.payouts.pain001 import Debtor


def test_both_ways_of_paying_are_adapters(tmp_path):
    debtor = Debtor(name="Net", iban="DE89370400440532013000")
    bank: Adapter = BankFiles(debtor, tmp_path, wall_us=lambda: 0)
    with HttpCallback("https://pay.example/", "") as http:
        callback: Adapter = http
        assert (bank.name, callback.name) == ("bank", "http")
        assert (bank.max_orders > 1, callback.max_orders) == (True, 1)


def test_an_outcome_goes_on_unless_it_says_stop():
    assert Outcome(kind=OutcomeKind.SENT).stop is False
    assert {kind.value for kind in OutcomeKind} == {
        "sent",
        "confirmed",
        "failed",
        "unresolved",
    }
