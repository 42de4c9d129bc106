"""The steps of a payout: only these, once each, and what they move."""

import itertools

import pytest
from sqlalchemy import select

from ledger.accounts import AccountKind
from ledger.errors import NotFound, OperationRefused, PayoutRefused
from ledger.payout_list import find_payout, payout_events, payout_rows, payouts
from ledger.payouts import PayoutState
from ledger.schema import account
from tests.support.paid_world import RATE, PaidWorld, copied, payee_rows


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return PaidWorld(tmp_path_factory.mktemp("paid") / "ledger", 2)


@pytest.fixture
def world(template, tmp_path):
    return copied(template, tmp_path / "ledger")


def operate(store, name, **params):
    return store.operate(f"payout.{name}", params).result(60)


def prepare(store, world):
    params = {"period": "2026-11", "adapter": "bank", "rate": RATE, "commit": True}
    params["payees"] = payee_rows(*world.workers)
    done = store.operate("payout.prepare", params).result(60)
    return [one["id"] for one in done["payouts"]]


def start(store, *ids):
    return operate(store, "start", payouts=[{"id": one} for one in ids])


def record(store, payout_id, state, **more):
    return operate(store, "record", outcomes=[{"id": payout_id, "state": state} | more])


def states(store):
    with store.reader().session() as connection:
        return [row["state"] for row in payouts(connection)]


def state_of(store, payout_id):
    with store.reader().session() as connection:
        row_id = bytes.fromhex(payout_id)
        return payout_rows(connection, [row_id])[row_id].state


def balances(store, worker):
    """(available, clearing) of a worker."""
    with store.reader().session() as connection:
        rows = connection.execute(select(account).where(account.c.owner == worker.id))
        found = {row.kind: row.credits_uc - row.debits_uc for row in rows}
    kinds = (AccountKind.WORKER_AVAILABLE, AccountKind.PAYOUT_CLEARING)
    return tuple(found.get(kind.value, 0) for kind in kinds)


WAYS = {  # state: the operations that lead there from prepared
    "prepared": [],
    "void": ["void"],
    "sending": ["start"],
    "sent": ["start", "sent"],
    "confirmed": ["start", "sent", "confirm"],
    "failed": ["start", "failed"],
    "unresolved": ["start", "unresolved"],
}
# What each operation does in each state: the state after it, None where it is refused.
OUTCOMES = {
    "void": {"prepared": "void", "void": "void"},
    "start": {"prepared": "sending"},
    "sent": {"sending": "sent", "sent": "sent"},
    "confirmed": {
        "sending": "confirmed",
        "sent": "confirmed",
        "confirmed": "confirmed",
        "unresolved": "confirmed",
    },
    "failed": {
        "sending": "failed",
        "sent": "failed",
        "failed": "failed",
        "unresolved": "failed",
    },
    "unresolved": {"sending": "unresolved", "unresolved": "unresolved"},
    "confirm": {"sent": "confirmed", "confirmed": "confirmed"},
    "paid": {
        "sending": "confirmed",
        "sent": "confirmed",
        "confirmed": "confirmed",
        "unresolved": "confirmed",
    },
    "not-paid": {
        "sending": "failed",
        "sent": "failed",
        "failed": "failed",
        "unresolved": "failed",
    },
}


def take(store, payout_id, operation):
    match operation:
        case "start":
            start(store, payout_id)
        case "void" | "confirm":
            operate(store, operation, id=payout_id, commit=True)
        case "paid" | "not-paid":
            is_paid = operation == "paid"
            operate(store, "resolve", id=payout_id, paid=is_paid, commit=True)
        case _:
            record(store, payout_id, operation)


@pytest.mark.slow
def test_every_step_from_every_state(tmp_path):
    """One worker's payout for each state and operation, the operation taken twice."""
    cases = list(itertools.product(WAYS, OUTCOMES))
    world = PaidWorld(tmp_path, len(cases))
    with world.open(tmp_path) as store:
        opening = [balances(store, worker)[0] for worker in world.workers]
        ids = prepare(store, world)
        for case, total_uc, worker, payout_id in zip(
            cases, opening, world.workers, ids, strict=True
        ):
            check_case(store, case, worker, payout_id, total_uc)


def check_case(store, case, worker, payout_id, total_uc):
    state, operation = case
    for way in WAYS[state]:
        take(store, payout_id, way)
    assert state_of(store, payout_id) == state
    before = balances(store, worker)
    after = OUTCOMES[operation].get(state)
    if after is None:
        with pytest.raises(PayoutRefused):
            take(store, payout_id, operation)
        assert state_of(store, payout_id) == state, case
        assert balances(store, worker) == before, case
        return
    take(store, payout_id, operation)
    moved = balances(store, worker)
    if operation != "start":  # the same step again is no error, and moves nothing
        take(store, payout_id, operation)
    assert balances(store, worker) == moved, case
    assert state_of(store, payout_id) == after, case
    if after in {"failed", "void"}:
        assert moved == (total_uc, 0), case
    elif after == "confirmed":
        assert moved == (before[0], 0), case
    else:
        assert sum(moved) == total_uc, case


def test_a_payout_is_sent_confirmed_and_gone(ledger_database):
    world = PaidWorld(ledger_database, 2)
    with world.open(world.path) as store:
        first, second = prepare(store, world)
        documents = start(store, second, first)["payouts"]
        assert [one["id"] for one in documents] == [second, first]
        assert {one["state"] for one in documents} == {"sending"}
        assert documents[0]["key"] == second
        with pytest.raises(PayoutRefused, match="is sending, so it cannot be sent"):
            start(store, first)
        record(store, first, "sent", reference="R1", detail="taken")
        record(store, second, "sent")
        with pytest.raises(PayoutRefused, match="reference 'R1' is of payout"):
            operate(store, "confirm", id=second, reference="R1", commit=True)
        dry = operate(store, "confirm", id=second)
        assert (dry["is_new"], dry["committed"], dry["state"]) == (
            True,
            False,
            "confirmed",
        )
        assert states(store) == ["sent", "sent"]
        operate(store, "confirm", id=second, reference="R2", commit=True)
        assert operate(store, "confirm", id=second, commit=True)["is_new"] is False
        with store.reader().session() as connection:
            steps = payout_events(connection, bytes.fromhex(second))
            assert [one["state"] for one in steps] == [
                "prepared",
                "sending",
                "sent",
                "confirmed",
            ]
            assert find_payout(connection, second[:8]) == bytes.fromhex(second)
            rows = {row["id"]: row for row in payouts(connection)}
            assert rows[first]["reference"] == "R1"
            assert rows[first]["detail"] == "taken"
        assert balances(store, world.workers[1])[1] == 0


def test_what_nobody_knows_waits_for_the_operator(world):
    with world.open(world.path) as store:
        first, second = prepare(store, world)
        start(store, first)
        assert operate(store, "recover") == {"unresolved": [first]}
        assert operate(store, "recover") == {"unresolved": []}
        with pytest.raises(PayoutRefused, match="is unresolved, not sent") as caught:
            operate(store, "confirm", id=first, commit=True)
        assert "payout resolve ID --paid" in caught.value.advice
        # Neither paid nor credited back, and not prepared again.
        assert prepare(store, world) == []
        held = balances(store, world.workers[0])[1]
        assert held > 0
        operate(store, "resolve", id=first, paid=False)  # a dry run
        assert states(store).count("unresolved") == 1
        operate(store, "resolve", id=first, paid=False, commit=True)
        assert balances(store, world.workers[0])[1] == 0
        with pytest.raises(PayoutRefused, match="is failed, so it cannot be confirmed"):
            operate(store, "resolve", id=first, paid=True, commit=True)
        assert len(prepare(store, world)) == 1
        assert second


def test_what_cannot_be_read_is_refused(world):
    with world.open(world.path) as store:
        for name, params in WRONG:
            with pytest.raises((OperationRefused, NotFound)):
                operate(store, name, **params)


WRONG = [
    ("start", {"payouts": [{"id": "00"}]}),
    ("start", {}),
    ("record", {"outcomes": [{"id": "00" * 16}]}),
    ("recover", {"x": 1}),
    ("void", {"id": "00" * 16, "commit": 1}),
    ("confirm", {"commit": True}),
    ("resolve", {"id": "00" * 16, "commit": True}),
]


def test_all_or_none(world):
    with world.open(world.path) as store:
        first, second = prepare(store, world)
        with pytest.raises(NotFound, match="no payout 0000"):
            start(store, first, "00" * 16)
        with pytest.raises(PayoutRefused, match="named twice"):
            start(store, first, first)
        assert states(store) == ["prepared", "prepared"]
        start(store, first, second)
        with pytest.raises(PayoutRefused, match="is no outcome of sending"):
            record(store, first, "void")
        twice = [
            {"id": one, "state": "sent", "reference": "R"} for one in (first, second)
        ]
        with pytest.raises(PayoutRefused, match="reference 'R' is named twice"):
            operate(store, "record", outcomes=twice)
        assert states(store) == ["sending", "sending"]
        assert PayoutState.SENDING == "sending"


def test_an_id_must_name_one(world):
    with world.open(world.path) as store:
        prepare(store, world)
        with store.reader().session() as connection:
            for text in ("", "0000000", "nonsense", "00000000", "é" * 8):
                with pytest.raises(NotFound):
                    find_payout(connection, text)
