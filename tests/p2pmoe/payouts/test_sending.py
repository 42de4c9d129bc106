"""Sending: told before and after, at every point where it may break off."""

import pytest

from ledger.errors import PayoutRefused, StoreUnavailable
from p2pmoe.payouts.adapter import Outcome, OutcomeKind
from p2pmoe.payouts.errors import SendingBusy, Unresolved
from p2pmoe.payouts.payees import Payee, Payees
from p2pmoe.payouts.sending import orders_of, send_orders, sending_right
from tests.support.payout_orders import IBAN, order


class Paying:
    """An adapter that answers as told and keeps what it paid."""

    name = "paying"

    def __init__(self, *outcomes, max_orders=1):
        self.outcomes, self.max_orders, self.paid = list(outcomes), max_orders, []

    def refusal(self, payee):
        return "" if payee.iban else "no account"

    def send(self, orders):
        made = []
        for one in orders:
            outcome = self.outcomes.pop(0) if self.outcomes else SENT
            if isinstance(outcome, BaseException):
                raise outcome
            self.paid.append(one.key)
            made.append(outcome)
        return made


class Ledger:
    """The operations that sending asks for, kept in a list."""

    def __init__(self, *, recovered=(), failing=None):
        self.asked, self.recovered, self.failing = [], list(recovered), failing

    def __call__(self, name, params):
        self.asked.append((name, params))
        if name == self.failing:
            raise StoreUnavailable("no space left on device")
        return {"unresolved": self.recovered} if name == "payout.recover" else {}

    def names(self):
        return [name.removeprefix("payout.") for name, _ in self.asked]


SENT = Outcome(kind=OutcomeKind.SENT)
FAILED = Outcome(kind=OutcomeKind.FAILED, detail="no such account")
LOST = Outcome(kind=OutcomeKind.UNRESOLVED, detail="timed out", stop=True)


def test_each_step_is_written_before_it_is_taken():
    ledger, way, seen = Ledger(), Paying(), []
    found = send_orders(ledger, way, [order(1), order(2)], seen.append)
    assert ledger.names() == ["recover", "start", "record", "start", "record"]
    assert ledger.asked[2][1]["outcomes"] == [
        {"id": order(1).id, "state": "sent", "detail": "", "reference": ""}
    ]
    assert (found.count(OutcomeKind.SENT), found.left, found.is_open) == (2, 0, False)
    assert seen == [1, 1]


def test_a_bad_address_does_not_stop_the_other_99():
    way = Paying(*[SENT] * 50, FAILED)
    found = send_orders(Ledger(), way, [order(n) for n in range(100)])
    assert found.count(OutcomeKind.SENT) == 99
    assert found.count(OutcomeKind.FAILED) == 1
    assert not found.is_open


def test_what_is_not_known_stops_and_leaves_the_rest():
    ledger, way = Ledger(), Paying(SENT, LOST)
    found = send_orders(ledger, way, [order(n) for n in range(5)])
    assert (len(way.paid), found.left, found.is_open) == (2, 3, True)
    assert ledger.asked[-1][1]["outcomes"][0]["state"] == "unresolved"


def test_what_an_earlier_run_left_is_open():
    found = send_orders(Ledger(recovered=["ab"]), Paying(), [])
    assert (found.recovered, found.is_open) == (["ab"], True)


def test_orders_of_one_currency_go_together():
    ledger, way = Ledger(), Paying(max_orders=2)
    orders = [order(1), order(2, currency="USD"), order(3), order(4)]
    send_orders(ledger, way, orders)
    sizes = [len(p["payouts"]) for name, p in ledger.asked if name == "payout.start"]
    assert sizes == [2, 1, 1]


def test_a_ledger_that_refuses_to_start_has_nothing_sent():
    class Refusing(Ledger):
        def __call__(self, name, params):
            if name == "payout.start":
                raise PayoutRefused("is sending")
            return super().__call__(name, params)

    way = Paying()
    with pytest.raises(PayoutRefused):
        send_orders(Refusing(), way, [order(1)])
    assert way.paid == []


def test_a_full_disk_after_the_payment_is_said_with_exit_code_3():
    way = Paying()
    with pytest.raises(Unresolved, match="ended as sent, which could not") as caught:
        send_orders(Ledger(failing="payout.record"), way, [order(1), order(2)])
    assert (caught.value.exit_code, way.paid) == (3, [order(1).key])


def test_an_adapter_that_breaks_leaves_its_orders_as_being_sent():
    ledger = Ledger()
    with pytest.raises(KeyboardInterrupt):
        send_orders(ledger, Paying(KeyboardInterrupt()), [order(1)])
    assert ledger.names() == ["recover", "start"]


def document(one, **changes):
    return {
        "id": one.id,
        "key": one.key,
        "period": one.period,
        "worker": one.payee.worker.hex(),
        "destination": one.payee.name,
        "amount_minor": one.amount_minor,
        "currency": one.currency,
    } | changes


def test_who_cannot_be_paid_is_left_as_prepared():
    payees = Payees()
    for n in (1, 2, 3):
        payee = order(n, iban="" if n == 3 else IBAN).payee
        payees.good[payee.worker] = payee
    payees.bad[order(4).payee.worker] = "IBAN has a typing error"
    documents = [document(order(n)) for n in (1, 3, 4, 5)]
    documents.append(document(order(2), destination="Eve"))
    orders, skipped = orders_of(documents, payees, Paying())
    assert orders == [order(1)]
    assert [one["reason"] for one in skipped] == [
        "no account",
        "IBAN has a typing error",
        "no payee",
        "prepared for 'Eve', now 'Ada Lovelace': void it",
    ]
    assert isinstance(orders[0].payee, Payee)


def test_one_command_at_a_time_sends(tmp_path):
    with sending_right(tmp_path):
        with pytest.raises(SendingBusy), sending_right(tmp_path):
            pass
    with sending_right(tmp_path):
        pass
